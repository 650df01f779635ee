"""Record the gallery's tapes anew: ``python -m sidecar.gallery.make [FOLDER]``.

Rules
1. The agents are recorded by ``sidecar tape record``, each in a folder of its own, as anybody's
   would be. Content is kept whole: nothing in it is anybody's, and so it depends on no redactor.
2. The same agents give the same exact digests; only times and ids differ.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from sidecar.gallery.files import agent_file
from sidecar.gallery.pairs import PAIRS, Pair

SIDES: Final = ("before", "after")
HERE: Final = Path(__file__).parent / "tapes"


def record(pair: Pair, side: str, to: Path) -> None:
    """Record one side of a pair."""
    with tempfile.TemporaryDirectory(prefix="sidecar-gallery-") as made:
        folder, module = Path(made), pair.name
        agent_file(pair, folder)
        subprocess.run(  # noqa: S603
            [
                *(sys.executable, "-P", "-m", "sidecar", "tape", "record", "-o", "made.tape"),
                *("--capture", "full", "--label", f"gallery={module}", "--label", f"side={side}"),
                *("--agent", f"py:{module}:{side}", "--llm", f"py:{module}:model"),
                *("--tools", f"py:{module}:TOOLS"),
            ],
            cwd=folder,
            check=True,
            stderr=subprocess.DEVNULL,
        )
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        shutil.move(folder / "made.tape", to)
        to.chmod(0o644)


def main(to: Path = HERE) -> None:
    """Record all pairs into a folder."""
    for pair in PAIRS:
        for side in SIDES:
            record(pair, side, to / pair.name / f"{side}.tape")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
