"""Coverage-guided fuzzing of receiving, decoding and building, with atheris.

Usage: python tests/fuzz/fuzz_otlp.py [SECONDS] [--keep]

The first byte of an input chooses signal and encoding, the rest is the payload. Inputs start from
``corpus`` beside this file. What breaks a promise of ``oracle`` is written to ``crash-…`` in the
working directory, and the exit code is 1. ``--keep`` adds what reached new code to the corpus:
small inputs only, and never more than ``FILES_MAX`` of them.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
FILES_MAX, BYTES_MAX = 150, 1500
CHILD = "--child"
CHOICES = [
    (signal, encoding)
    for encoding in ("protobuf", "json")
    for signal in ("traces", "logs", "metrics")
]


def fuzz(found, seconds):
    """Fuzz for a while; libFuzzer ends the process."""
    import atheris

    sys.path.insert(0, str(HERE))
    with atheris.instrument_imports(include=["sidecar", "processors"]):
        from oracle import holds

    def one(data):
        if data:
            holds(*CHOICES[data[0] % len(CHOICES)], data[1:])

    options = [
        f"-max_total_time={seconds}",
        "-timeout=20",
        "-rss_limit_mb=1024",
        "-max_len=16384",
        "-verbosity=0",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], found, str(CORPUS), *options], one)
    atheris.Fuzz()


def keep(found):
    """Copy the new inputs that are small into the corpus, as long as there is room."""
    room = FILES_MAX - len(list(CORPUS.iterdir()))
    small = [path for path in found.iterdir() if path.stat().st_size <= BYTES_MAX]
    newest = sorted(small, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in newest[: max(room, 0)]:
        content = path.read_bytes()
        (CORPUS / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


def main(arguments):
    """Fuzz in a process of its own; 1 when something broke."""
    seconds = next((word for word in arguments if word.isdecimal()), "60")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, CHILD, folder, seconds]
        code = subprocess.run(command, check=False).returncode
        if "--keep" in arguments:
            keep(Path(folder))
    return 1 if code else 0


if __name__ == "__main__":
    if CHILD in sys.argv:
        fuzz(*sys.argv[sys.argv.index(CHILD) + 1 :])
    sys.exit(main(sys.argv[1:]))
