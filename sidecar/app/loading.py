"""Reading the configuration, with what the command line adds."""

from sidecar.config import Loaded, load
from sidecar.errors import Problem


def load_config(
    file: str | None, store: str | None, *, thorough: bool = False, **overrides: object
) -> Loaded:
    """The configuration with ``--config`` and ``--store`` applied. Raises SidecarError.

    ``thorough`` also reads schemas and compiles expressions, as a server must before it starts.
    """
    flags = {name.replace("__", "."): value for name, value in overrides.items()}
    also = _costly if thorough else (lambda _: [])
    return load(file, overrides={"store.url": store, **flags}, also=also)


def _costly(loaded: Loaded) -> list[Problem]:
    from sidecar.app.tools import costly_problems  # compiles, which few commands need

    return costly_problems(loaded)
