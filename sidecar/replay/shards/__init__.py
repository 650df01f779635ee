"""A replay cut into shards: who runs which episodes, and how what came of them is put together."""
