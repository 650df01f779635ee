"""``sidecar policy verify --against URL``: a decision log put to an OPA server again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click

from sidecar.cli.options import emit
from sidecar.errors import ExitCode, SidecarError
from sidecar.gateway.decisions.driver import Compared, compare
from sidecar.plain import plain

_DEADLINE_NS = 2_000_000_000


def verify_against(
    url: str, log: str, cidrs: tuple[str, ...], limit: int | None, output: str
) -> None:
    """Compare, print, and end as documented: 0 the same, 1 something differs, 2 not decided."""
    found = asyncio.run(_compared(url, log, cidrs, limit))
    emit(found, output, lambda: "\n".join(map(plain, _lines(found))))
    if found.differing:
        raise click.exceptions.Exit(ExitCode.FAILED)
    if not found.compared or found.unanswered:
        raise click.exceptions.Exit(ExitCode.UNDECIDED)


async def _compared(url: str, log: str, cidrs: tuple[str, ...], limit: int | None) -> Compared:
    # here, since the other commands load no dialling
    from sidecar.egress.client import Egress
    from sidecar.egress.rules import Target, undialable
    from sidecar.gateway.policy.opa import OpaServer

    target = Target(name="policy", url=url, allow_cidrs=cidrs)
    why = undialable(target)
    if why is not None:
        raise SidecarError(
            f"the OPA server cannot be asked: {why}", where="--against, --allow-cidr"
        )
    server = OpaServer(target, Egress(), deadline_ns=_DEADLINE_NS, start_seconds=0)
    await server.start()
    try:
        return await compare(_read(log), server.decide, limit=limit)
    finally:
        await server.stop()


def _read(log: str) -> Iterator[bytes]:
    try:
        with Path(log).open("rb") as file:
            yield from file
    except OSError as error:
        raise SidecarError(
            f"the decision log cannot be read: {error.strerror}", where=log
        ) from error


def _lines(found: Compared) -> list[str]:
    lines = []
    for each in found.differs:
        lines.append(f"{each.decision_id}  {each.tool}")
        lines += [
            f"  {name}: {each.logged[name]} is {each.answered[name]} there" for name in each.logged
        ]
    skipped = "".join(f", {count} {why}" for why, count in sorted(found.skipped.items()))
    lines.append(
        f"{found.compared} compared, {found.differing} differ, {found.unanswered} not answered"
        f"{skipped}"
    )
    if len(found.revisions) > 1:
        lines.append(f"several revisions: {', '.join(found.revisions)}")
    return lines
