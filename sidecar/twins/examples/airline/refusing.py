"""How the airline says no: text that starts with ``Error: ``."""

from sidecar.twins.coded import Answer, Refusal


def refused(reason: str, status: int = 409) -> Refusal:
    """The refusal with that reason."""
    return Refusal(Answer(status=status, text=f"Error: {reason}"))
