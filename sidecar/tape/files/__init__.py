"""Tapes on disk."""

from sidecar.tape.files.blobs import BlobStore, Packaging
from sidecar.tape.files.reading import examine, known_codecs, opened, read_tape, tape_codecs
from sidecar.tape.files.rewriting import end_again, migrate, repack
from sidecar.tape.files.writer import TapeWriter

__all__ = [
    "BlobStore",
    "Packaging",
    "TapeWriter",
    "end_again",
    "examine",
    "known_codecs",
    "migrate",
    "opened",
    "read_tape",
    "repack",
    "tape_codecs",
]
