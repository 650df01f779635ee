"""A pair's files, from the package's own."""

from importlib import resources
from pathlib import Path

from sidecar.gallery.pairs import Pair


def agent_file(pair: Pair, folder: Path) -> Path:
    """A pair's agent as a file of its own in a folder, as anybody's would be."""
    text = (resources.files("sidecar.gallery") / "agents" / f"{pair.name}.py").read_text("utf-8")
    place = folder / f"{pair.name}.py"
    place.write_text(text, encoding="utf-8")
    return place


def tape_files(pair: Pair, folder: Path) -> None:
    """A pair's tapes, its assertions and its change, in a folder."""
    for one in (resources.files("sidecar.gallery") / "tapes" / pair.name).iterdir():
        (folder / one.name).write_bytes(one.read_bytes())
