"""Which point of an order introduced a behaviour (docs/specs/bisect.md)."""
