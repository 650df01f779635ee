"""The state of a bisection on disk."""

from sidecar.replay.bisect.files.journal import Journal, abandoned, held

__all__ = ["Journal", "abandoned", "held"]
