"""``sidecar chaos``: prove on this machine what the gateway promises of crashes."""

import asyncio

import click

from sidecar.cli.options import emit, on_terminal, talk
from sidecar.errors import ExitCode

_TOLD_EVERY = 25
_WHOLE_ONE_IN = 10


@click.group()
def command() -> None:
    """Prove what the gateway promises when it is killed, or when a part of it fails.

    \b
    Example:
      $ sidecar chaos crash-proof --iterations 500
      …
      holds: 500 kills, recovery 78.4%, duplicate effects 0, lost receipts 0, documented 100.0%
    """


@command.command("fault-matrix")
@click.option("--row", "names", multiple=True, help="Only this failure; may be given again.")
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the result on stdout.",
)
@click.pass_context
def fault_matrix(context: click.Context, names: tuple[str, ...], output: str) -> None:
    """Break one part of a real gateway after the other and see what each class of call gets.

    Processes are stopped, the ledger is locked, the disk is full, the tool hangs. Exits 1 unless
    every answer is the documented one and nothing was sent that was not to be. Linux only.

    \b
    Example:
      $ sidecar chaos fault-matrix --row policy_hangs
            failure       read | write | irreversible
      ok    policy_hangs  503 policy_error | 503 policy_error | 503 policy_error
      holds: 1 of 1 rows as documented
    """
    # Imported here: only this command pays for a gateway.
    from sidecar.chaos.breaking.driver import try_all
    from sidecar.chaos.matrix import ROWS, Judged, lines

    unknown = set(names) - {row.name for row in ROWS}
    if unknown:
        raise click.BadParameter(f"there is no {', '.join(sorted(unknown))}", param_hint="--row")
    rows = tuple(row for row in ROWS if not names or row.name in names)

    def told(judged: Judged) -> None:
        if on_terminal():
            talk(judged.row.name)

    matrix = asyncio.run(try_all(rows, spoil=context.obj, told=told))
    emit(matrix, output, lambda: lines(matrix))
    if not matrix.holds:
        context.exit(int(ExitCode.FAILED))


@command.command("crash-proof")
@click.option(
    "--iterations",
    type=click.IntRange(1, 1_000_000),
    default=500,
    show_default=True,
    help="How many times a gateway is killed.",
)
@click.option(
    "--whole",
    type=click.IntRange(0, 1_000_000),
    default=None,
    help="How many of the kills hit all that sidecar serve is, pipeline and control with it"
    " [default: one in ten].",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the order of the kills.")
@click.option(
    "--store",
    default="",
    help="A Postgres database of its own for the proof [default: SQLite in a temporary folder].",
)
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the result on stdout.",
)
@click.pass_context
def crash_proof(
    context: click.Context,
    iterations: int,
    whole: int | None,
    seed: int,
    store: str,
    output: str,
) -> None:
    """Kill real gateways at every step of a call and count the effects at the upstream.

    The kills are SIGKILL of gateway processes of its own, before an upstream that counts in a
    database of its own. Exits 1 unless there was no duplicate effect, no lost receipt, and every
    claim and answer is as documented. A kill that was not made, as on a busy machine, is tried
    again and counted apart.

    \b
    Example:
      $ sidecar chaos crash-proof --iterations 500
      …
      holds: 500 kills, recovery 78.4%, duplicate effects 0, lost receipts 0, documented 100.0%
    """
    # Imported here: only this command pays for a gateway.
    from sidecar.chaos.driver import prove
    from sidecar.chaos.proof import Found, lines

    done = 0

    def told(found: Found) -> None:
        nonlocal done
        done += found.killed
        if on_terminal() and found.killed and done % _TOLD_EVERY == 0:
            talk(f"{done} of {iterations}")

    spoil = context.obj  # of a test of the proof itself; None from the command line
    proof = asyncio.run(
        prove(
            iterations=iterations,
            seed=seed,
            store=store,
            whole=iterations // _WHOLE_ONE_IN if whole is None else whole,
            spoil=spoil,
            told=told,
        )
    )
    emit(proof, output, lambda: lines(proof))
    if not proof.holds:
        context.exit(int(ExitCode.FAILED))
