"""``sidecar policy pending``, ``approve`` and ``deny``: people's word on a policy that would loosen
decisions."""

from typing import Any

import click

from sidecar.app.loading import load_config
from sidecar.cli.asking import control
from sidecar.cli.moments import instant
from sidecar.cli.options import common, deciding, emit, in_project
from sidecar.config import Loaded
from sidecar.plain import plain

_OFFER = "/v1/policy/offer"


@click.command("pending")
@click.option("--key", help="A person's key (or SIDECAR_CLIENT_KEY, client.key).")
@in_project
@common()
def pending(
    key: str | None, project: str | None, config: str | None, store: str | None, output: str
) -> None:
    """Show the looser policy that waits for two people, or the last one that did.

    \b
    Example:
      $ sidecar policy pending
      sha256:280bce3e…  pending  1 of 2 approved
        in the place of sha256:0339190a…
        of the last 1000 decisions: 3 loosened, 0 tightened, 1 changed, 0 unjudged
        …
    """
    offer = control(load_config(config, store, client__key=key, client__project=project), _OFFER)
    emit(offer, output, lambda: "\n".join(map(plain, _lines(offer))))


@click.command("approve")
@click.argument("revision")
@deciding(whose="Your approver key")
def approve(
    revision: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Approve that a looser policy takes the place of the one that decides; two people do.

    \b
    Example:
      $ sidecar policy approve sha256:280bce3e… --reason "reviewed with finance"
      sha256:280bce3e…  pending  1 of 2 approved
    """
    _vote(
        "approve",
        revision,
        reason,
        loaded,
        output,
    )


@click.command("deny")
@click.argument("revision")
@deciding(whose="Your approver key")
def deny(
    revision: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Deny that a looser policy decides; one denial ends it.

    \b
    Example:
      $ sidecar policy deny sha256:280bce3e… --reason "the limit is to stay"
      sha256:280bce3e…  denied
    """
    _vote(
        "deny",
        revision,
        reason,
        loaded,
        output,
    )


def _vote(decision: str, revision: str, reason: str, loaded: Loaded, output: str) -> None:
    ballot = {"revision": revision, "reason": reason}
    offer = control(loaded, f"{_OFFER}/{decision}", ballot)
    emit(offer, output, lambda: plain(_first(offer)))


def _first(offer: dict[str, Any]) -> str:
    votes = sum(vote["decision"] == "approve" for vote in offer["votes"])
    waits = f"  {votes} of 2 approved" if offer["state"] == "pending" else ""
    return f"{offer['revision']}  {offer['state']}{waits}"


def _lines(offer: dict[str, Any]) -> list[str]:
    names = ("loosened", "tightened", "changed", "unjudged")
    judged = ", ".join(f"{offer[name]} {name}" for name in names)
    signed = f", signed by {offer['key_id']}" if offer["key_id"] else ""
    votes = [
        f"  {vote['decision']} by {vote['voter']} at {instant(vote['voted_at_ns'])}: "
        f"{vote['reason']}"
        for vote in offer["votes"]
    ]
    return [
        _first(offer),
        f"  in the place of {offer['before']}",
        f"  of the last {offer['compared']} decisions: {judged}",
        f"  offered at {instant(offer['offered_at_ns'])}{signed}",
        *votes,
    ]
