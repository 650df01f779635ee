"""Two tapes compared: where they first differ, and what is left of both behind that."""

from sidecar.replay.diff.compare import compare
from sidecar.replay.diff.model import Agent, Diff, Divergence, Incomparable, Row

__all__ = ["Agent", "Diff", "Divergence", "Incomparable", "Row", "compare"]
