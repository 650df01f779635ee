"""What every importer of tapes gives: a header and facts, and how imported content is redacted.

**Rules**
1. The same input gives the same tape, byte for byte: ids and times come from what is imported.
2. Fidelity says what may be concluded: L0 structure and times, L1 equality, L2 tool results and
   prompts, too. Gaps lower it by one. L3 is for what was recorded at every seam, never imported.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from processors.model.names import Capture
from processors.redact.detectors import DETECTORS
from processors.redact.leaves import masked
from processors.redact.masker import Masker
from processors.redact.terms import Terms
from sidecar.canonical import canonical
from sidecar.tape.compose import Fact
from sidecar.tape.model import Fidelity, Header, RedactorId

_LOWER: Final[Mapping[Fidelity, Fidelity]] = {"L3": "L2", "L2": "L1", "L1": "L0", "L0": "L0"}


class Imported(Struct, frozen=True, kw_only=True):
    """One run to be written as a tape; ``name`` is a file's, made of safe characters.

    ``pieces``: of a fact, by its place, the pieces in which its answer was streamed.
    """

    name: str
    header: Header
    facts: list[Fact]
    pieces: dict[int, list[str]] = {}


class Unimportable(ValueError):
    """What is wrong with something that should be imported; ours to tell."""


class MaskingRedactor:
    """The server's redaction on a project's terms, as a tape's."""

    def __init__(self, terms: Terms) -> None:
        self._masker = Masker(terms)
        known = [detector.pattern for detector in DETECTORS]
        told = canonical({"actions": dict(terms.actions), "detectors": known})
        key_id = terms.key.key_id if terms.key is not None else None
        version = f"1:{hashlib.sha256(told).hexdigest()[:12]}"
        self._identity = RedactorId(id="agenttwin-terms", version=version, key_id=key_id)

    @property
    def identity(self) -> RedactorId:
        """Its id, its version with a digest of actions and detectors, and its key's id."""
        return self._identity

    def value(self, value: Any, seen: set[str] | None = None) -> Any:  # noqa: ARG002
        """An encoded value with every datum replaced."""
        return masked(value, self._masker)


class NoRedactor:
    """Capture ``full``: everything stays, and the tape says so."""

    @property
    def identity(self) -> RedactorId:
        """``none``."""
        return RedactorId(id="none", version="1")

    def value(self, value: Any, seen: set[str] | None = None) -> Any:  # noqa: ARG002
        """The value."""
        return value


def redactor_of(capture: Capture) -> MaskingRedactor | NoRedactor:
    """How content is redacted under a capture."""
    if capture == "full":
        return NoRedactor()
    return MaskingRedactor(Terms(capture="redacted"))


def lowered(fidelity: Fidelity, gaps: Sequence[str], capture: Capture) -> Fidelity:
    """The fidelity that gaps and the capture leave."""
    found = _LOWER[fidelity] if gaps else fidelity
    return min(found, "L1") if capture == "off" else found


def content_id(prefix: str, value: Any) -> str:
    """An id of what was imported: the same input has the same."""
    return f"{prefix}-{hashlib.sha256(canonical(value)).hexdigest()[:32]}"


def parsed(value: Any) -> Any:
    """A text that is a JSON object or list as that; anything else as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def file_name(text: str) -> str:
    """A text as a file's name: letters, digits, ``-``, ``_`` and ``.``, and no folder."""
    safe = "".join(
        one if one.isascii() and (one.isalnum() or one in "-_.") else "-" for one in text
    )
    return safe.strip(".")[:100] or "tape"
