"""How much of a property is looked at: all in the full tier, a third in the fast one."""

import os


def examples(whole):
    """The number of examples of a property that takes long."""
    return whole if os.environ.get("TIER") == "full" else -(-whole // 3)
