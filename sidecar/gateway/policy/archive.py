"""A bundle as one file: OPA's gzipped tarball, packed and unpacked as bytes.

**Rules**
1. Unpacking is bounded before it begins: compressed and plain size, their ratio, files, names.
2. Only plain files under plain relative names, each once. A link, a device, ``..``, a backslash, a
   second gzip member or anything after the end: refused.
3. One set of files has one packed form.

Source: gateway.md §2.8; OPA's bundle file format.
"""

import io
import re
import tarfile
import zlib
from collections.abc import Mapping

ARCHIVE_BYTES_MAX = 8 * 1024**2
PLAIN_BYTES_MAX = 32 * 1024**2
RATIO_MAX = 200
FILES_MAX = 500
NAME_CHARS_MAX = 200
_PART = re.compile(r"[A-Za-z0-9_.-]+\Z")
_GZIP = 31  # zlib's word for a gzip header and the largest window


class ArchiveInvalid(ValueError):
    """The bytes are no archive that is unpacked; the message says why."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """The archive of those files, by name."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(files[name]), 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
    return packer.compress(plain.getvalue()) + packer.flush()


def unpack(archive: bytes) -> dict[str, bytes]:
    """The files of an archive, by name. Raises ArchiveInvalid."""
    if len(archive) > ARCHIVE_BYTES_MAX:
        raise ArchiveInvalid(f"it is larger than {ARCHIVE_BYTES_MAX} bytes")
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(_plain(archive)), mode="r:") as opened:
            for member in opened:
                _check(member, files)
                if member.isreg():
                    content = opened.extractfile(member)
                    files[_name(member.name)] = content.read() if content else b""
    except (tarfile.TarError, ValueError, UnicodeError) as error:
        if isinstance(error, ArchiveInvalid):
            raise
        raise ArchiveInvalid(f"it is no tar archive: {error}") from error
    if not files:
        raise ArchiveInvalid("it is empty")
    return files


def _plain(archive: bytes) -> bytes:
    most = min(PLAIN_BYTES_MAX, max(len(archive), 1024) * RATIO_MAX)
    opener = zlib.decompressobj(_GZIP)
    try:
        plain = opener.decompress(archive, most + 1)
    except zlib.error as error:
        raise ArchiveInvalid(f"it is not gzipped: {error}") from error
    if len(plain) > most:
        raise ArchiveInvalid(f"it unpacks to more than {most} bytes")
    if not opener.eof or opener.unused_data:
        raise ArchiveInvalid("it is cut off, or something follows its end")
    return plain


def _check(member: tarfile.TarInfo, files: Mapping[str, bytes]) -> None:
    if member.isdir():
        return
    if not member.isreg() or member.issparse():
        raise ArchiveInvalid(f"{member.name[:80]!r} is no plain file")
    if len(files) >= FILES_MAX:
        raise ArchiveInvalid(f"it has more than {FILES_MAX} files")
    name = _name(member.name)
    if name in files:
        raise ArchiveInvalid(f"{name!r} is in it twice")


def _name(name: str) -> str:
    """The name as a relative path: OPA writes a slash before it."""
    plain = name.removeprefix("/")
    parts = plain.split("/")
    good = all(_PART.match(part) and part not in (".", "..") for part in parts)
    if not good or len(plain) > NAME_CHARS_MAX:
        raise ArchiveInvalid(f"{name[:80]!r} is no plain relative name")
    return plain
