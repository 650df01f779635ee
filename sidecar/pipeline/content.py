"""What of a project's content is kept (key ``projects[].content``).

Rules
1. Unknown kinds of data and unknown actions are refused: a misspelt one would protect nothing.
2. What has no effect under a capture is refused beside it.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from processors.model.names import Capture
from processors.redact.terms import KINDS, Action, Terms
from sidecar.errors import Problem

_PATTERN = re.compile(r"[^*\s]+\*?\Z")


class Detectors(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands in place of a datum of each kind: drop, mask, hash or tokenise."""

    private_key: Action = "mask"
    jwt: Action = "mask"
    aws_key: Action = "mask"
    api_key: Action = "mask"
    bearer: Action = "mask"
    credential: Action = "mask"
    secret: Action = "mask"  # noqa: S105 (a kind of datum, not one)
    email: Action = "mask"
    iban: Action = "mask"
    card: Action = "mask"
    ssn: Action = "mask"
    phone: Action = "mask"


class Attributes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attribute keys whose values are kept, and those whose values never are; ``*`` ends a key."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Content(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of captured content is kept: off, redacted or full; and how data in it are replaced."""

    capture: Capture = "off"
    detectors: Detectors = Detectors()
    attributes: Attributes = Attributes()

    @property
    def terms(self) -> Terms:
        """The same for redaction, without a key."""
        return Terms(
            capture=self.capture,
            actions={kind: getattr(self.detectors, kind) for kind in KINDS},
            allow=self.attributes.allow,
            deny=self.attributes.deny,
        )

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``content``."""
        return list(_problems(self))


def _problems(content: Content) -> Iterator[Problem]:
    if content.capture == "full":
        for name, given, plain in (
            ("detectors", content.detectors, Detectors()),
            ("attributes", content.attributes, Attributes()),
        ):
            if given != plain:
                yield Problem(name, "has no effect under capture: full, which keeps everything")
    for name, patterns in (
        ("allow", content.attributes.allow),
        ("deny", content.attributes.deny),
    ):
        for index, pattern in enumerate(patterns):
            if not _PATTERN.match(pattern):
                yield Problem(
                    f"attributes.{name}.{index}",
                    f"must be an attribute's key, or its beginning and *, not {pattern!r}",
                )
