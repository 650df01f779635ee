"""The SQL that ships with the program, by name.

Rules
1. A schema is the list of its scripts, in order; a released script is followed, never edited.
"""

from importlib import resources

LEDGER = (
    *("keys", "ledger", "rotation", "identity", "budget", "approvals", "attempts", "stop"),
    *("webhooks", "durable", "audit", "owners", "deadlines", "sign_in", "signing", "glass"),
    *("pages", "excluded"),
)
JOURNAL = ("journal",)
TRACES = ("traces", "verdicts", "export", "runs", "bounds", "episodes", "datasets")


def script(name: str) -> str:
    """The text of ``store/sql/<name>.sql``."""
    return (resources.files("sidecar.store") / "sql" / f"{name}.sql").read_text()


def scripts(names: tuple[str, ...]) -> list[str]:
    """The texts of several scripts, in order."""
    return [script(name) for name in names]
