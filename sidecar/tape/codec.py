"""Codecs: what of a seam's payloads counts when two runs are compared.

**Rules**
1. A codec is data. Its fingerprint is the digest of its canonical form, which is a blob of every
   tape it was used for: two fingerprints that differ make tapes incomparable, never drift.
2. Projecting twice changes nothing.
3. Order: volatile places out, digested fields, numbers and times in one spelling, then unordered
   lists, innermost first. Identifiers are no part of it: they need to know what came before
   (``behaviour``).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from sidecar.canonical import canonical
from sidecar.tape.model import Seam
from sidecar.tape.paths import REMOVED, Paths, path_problem
from sidecar.tape.value import address, matches

PATHS_MAX: Final = 256


class Projection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What counts of one payload. All are paths (``paths``).

    ``fields``: only these, where any is named. ``volatile``: ignored. ``unordered``: lists that are
    multisets. ``numbers``: path to decimal places kept. ``times``: ISO 8601 texts, compared as
    moments to the microsecond. ``ids``: in an output, values minted there.
    """

    fields: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)
    times: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def problems(self) -> list[str]:
        """What is wrong with it."""
        every = (
            *self.fields,
            *self.volatile,
            *self.unordered,
            *self.numbers,
            *self.times,
            *self.ids,
        )
        if len(every) > PATHS_MAX:
            return [f"more than {PATHS_MAX} paths"]
        found = [f"{text}: {problem}" for text in every if (problem := path_problem(text))]
        if self.unordered:
            odd = [text for text in every if any(map(str.isdecimal, text.split("/")))]
            found += [f"{text}: a path by index, where lists have no order" for text in odd]
        places = self.numbers.items()
        return found + [f"{text}: 0 to 15 places" for text, n in places if not 0 <= n <= 15]


class Codec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How payloads of a seam are compared; ``version`` tells codecs of one shape apart."""

    seam: Seam
    version: int = 1
    input: Projection = Projection()
    output: Projection = Projection()

    def problems(self) -> list[str]:
        """What is wrong with its paths."""
        return [*self.input.problems(), *self.output.problems()]

    def definition(self) -> bytes:
        """Its canonical bytes, kept as a blob."""
        return canonical(msgspec.to_builtins(self))

    def fingerprint(self) -> str:
        """The digest of its definition."""
        return address(self.definition())


class Projector:
    """A projection, made ready to be applied."""

    def __init__(self, projection: Projection) -> None:
        self._fields = Paths(projection.fields)
        self._volatile = Paths(projection.volatile)
        self._places = dict(projection.numbers)
        self._numbers = Paths(projection.numbers)
        self._times = Paths(projection.times)
        self._unordered = Paths(projection.unordered)
        self.ids = Paths(projection.ids)
        self.changes = any(
            (self._fields, self._volatile, self._numbers, self._times, self._unordered)
        )

    def project(self, value: Any) -> Any:
        """What of an encoded value counts."""
        if not self.changes:
            return value
        value = self._volatile.edit(value, lambda *_: REMOVED)
        if self._fields:
            value = self._fields.only(value)
        value = self._numbers.edit(value, self._rounded)
        value = self._times.edit(value, lambda item, _: _moment(item))
        return self._unordered.edit(value, lambda item, _: _sorted(item))

    def _rounded(self, value: Any, paths: list[str]) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        return round(value, min(self._places[path] for path in paths))


class Codecs:
    """The codecs of a tape, by seam; a seam without one is compared whole.

    Raises ValueError for one that has problems.
    """

    def __init__(self, codecs: Mapping[Seam, Codec]) -> None:
        self.by_seam: dict[Seam, Codec] = dict(codecs)
        problems = [problem for one in codecs.values() for problem in one.problems()]
        if problems:
            raise ValueError("; ".join(problems))
        self._inputs = {seam: Projector(one.input) for seam, one in codecs.items()}
        self._outputs = {seam: Projector(one.output) for seam, one in codecs.items()}

    def fingerprints(self) -> dict[str, str]:
        """Seam to fingerprint."""
        return {seam: one.fingerprint() for seam, one in sorted(self.by_seam.items())}

    def input_of(self, seam: Seam | None) -> Projector:
        """How a seam's inputs are projected."""
        return _WHOLE if seam is None else self._inputs.get(seam, _WHOLE)

    def output_of(self, seam: Seam | None) -> Projector:
        """How a seam's outputs are projected."""
        return _WHOLE if seam is None else self._outputs.get(seam, _WHOLE)


def codec_of(seam: str, fingerprint: str, definition: bytes | None) -> Codec | None:
    """The codec of a fingerprint: one of ours, or as a tape defines it; None where neither is."""
    for known in DEFAULT.values():
        if known.seam == seam and known.fingerprint() == fingerprint:
            return known
    if definition is None or not matches(fingerprint, definition):
        return None
    try:
        codec = msgspec.json.decode(definition, type=Codec)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return codec if codec.seam == seam and not codec.problems() else None


def with_volatile(codecs: Mapping[Seam, Codec], profile: Mapping[Seam, Codec]) -> Codecs:
    """Codecs with a user's own places added (header ``volatile`` holds ``profile_digest``)."""
    merged = dict(codecs)
    for seam, extra in profile.items():
        base = merged.get(seam, Codec(seam=seam))
        merged[seam] = Codec(
            seam=seam,
            version=base.version,
            input=_added(base.input, extra.input),
            output=_added(base.output, extra.output),
        )
    return Codecs(merged)


def profile_digest(profile: Mapping[Seam, Codec]) -> str:
    """The digest of a user's own places."""
    return address(canonical({seam: msgspec.to_builtins(one) for seam, one in profile.items()}))


def _added(base: Projection, extra: Projection) -> Projection:
    return Projection(
        fields=(*base.fields, *extra.fields),
        volatile=(*base.volatile, *extra.volatile),
        unordered=(*base.unordered, *extra.unordered),
        numbers={**base.numbers, **extra.numbers},
        times=(*base.times, *extra.times),
        ids=(*base.ids, *extra.ids),
    )


def _moment(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is None:
        return moment.isoformat()
    try:
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:  # at an end of the calendar
        return value


def _sorted(value: Any) -> Any:
    return sorted(value, key=canonical) if isinstance(value, list) else value


_WHOLE: Final = Projector(Projection())
_HEADERS: Final = tuple(
    f"/headers/{name}"
    for name in (
        "date",
        "traceparent",
        "tracestate",
        "baggage",
        "x-request-id",
        "request-id",
        "x-stainless-retry-count",
        "user-agent",
        "content-length",
        "age",
        "etag",
        "cf-ray",
        "server",
        "via",
    )
)
DEFAULT: Final[dict[Seam, Codec]] = {
    "provider": Codec(
        seam="provider",
        input=Projection(volatile=("/timeout", "/extra_headers", "/headers", "/stream_options")),
        output=Projection(
            volatile=("/id", "/created", "/system_fingerprint", "/usage", "/service_tier"),
        ),
    ),
    "http": Codec(
        seam="http",
        input=Projection(volatile=_HEADERS),
        output=Projection(volatile=_HEADERS),
    ),
}
