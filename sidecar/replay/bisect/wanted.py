"""One bisection as it is asked for at the command line."""

from collections.abc import Sequence

from sidecar.replay.bisect.model import Search


class Wanted(Search, frozen=True, kw_only=True):
    """The options of ``sidecar bisect``; names, meanings and defaults are those of its help."""

    command: tuple[str, ...]
    goods: tuple[str, ...] = ()
    bad: str = ""
    repo: str = "."
    all_parents: bool = False
    revisions: str = ""
    timeout_seconds: float = 600.0
    signature: str = ""
    tape: str = ""
    assertions: str = ""
    roots: tuple[str, ...] = ()
    setup: str = ""
    locks: tuple[str, ...] = ()
    cache: str = ""
    fresh: bool = False

    def search(self) -> dict[str, object]:
        """What makes the answer to the same oracle another."""
        return {name: getattr(self, name) for name in Search.__struct_fields__}

    def oracle(self) -> dict[str, object]:
        """What makes a run of it another."""
        return {
            "command": list(self.command),
            "signature": self.signature,
            "timeout_seconds": self.timeout_seconds,
            "setup": self.setup,
            "roots": list(self.roots),
            "locks": list(self.locks),
        }


def again(wanted: Wanted, goods: Sequence[str], bad: str) -> list[str]:
    """A command line that asks the same between other ends."""
    plain = Wanted(command=())
    found = ["sidecar", "bisect"]
    for one in goods:
        found += ["--good", one]
    found += ["--bad", bad] if bad else []
    for option, name in (
        *(("--repo", "repo"), ("--revisions", "revisions"), ("--method", "method")),
        *(("--measure", "measure"), ("--confidence", "confidence"), ("--seed", "seed")),
        *(("--monotone", "monotone"), ("--runs-max", "runs_max"), ("--signature", "signature")),
        *(("--tape", "tape"), ("--assertions", "assertions")),
        *(("--setup", "setup"), ("--cache", "cache")),
    ):
        value = getattr(wanted, name)
        if value != getattr(plain, name):
            found += [option, str(value)]
    if wanted.timeout_seconds != plain.timeout_seconds:
        found += ["--timeout", f"{wanted.timeout_seconds:g}s"]
    found += ["--all-parents"] if wanted.all_parents else []
    for one in wanted.roots:
        found += ["--root", one]
    for one in wanted.locks:
        found += ["--lock", one]
    return [*found, "--", *wanted.command]
