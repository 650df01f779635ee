"""Text as a terminal may show it: whatever it holds, it stays where it is put.

**Rules**
1. Nothing that moves a cursor, starts a control sequence, breaks a line or turns the direction of
   writing passes; it is shown as an escape (``\\x1b``, ``\\n``, ``\\u202e``) instead.
2. Every value that was not written by us passes here, field by field, before it becomes text.
3. JSON stays the same JSON: the same characters are escaped as JSON escapes them.
"""

import re
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

T = TypeVar("T")

_CONTROLS = r"\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
_HOSTILE = re.compile(rf"[\x00-\x1f{_CONTROLS}\ud800-\udfff\U000e0000-\U000e007f]")
_MARKUP = re.compile(
    r"[\\`*\[\]<>#|&~@$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # inside a word it is no emphasis
    r"|:(?=//|[\w+-]+:)|(?<=mailto):|(?<=xmpp):|(?<=www)\."
    r"|^[-+=](?=\s)|^\d(?=\d*[.)])",
    re.IGNORECASE,
)
_HOSTILE_IN_JSON = re.compile(rf"[{_CONTROLS}\ud800-\udfff]")


def plain(text: str) -> str:
    """One line that a terminal shows as it is; for a value that stands in a line of ours."""
    return _HOSTILE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def plain_lines(text: str) -> str:
    """The same for a text of several lines: its line feeds are kept, and nothing else."""
    return "\n".join(map(plain, text.split("\n")))


def plain_json(text: str) -> str:
    """JSON text whose strings hold no raw control character; C0 is escaped by JSON itself."""
    return _HOSTILE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_markdown(text: str) -> str:
    """One line of text that no Markdown reader takes for markup, link, mention, cell or HTML."""
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", plain(text))


def plained(value: T) -> T:
    """A record, list or mapping with every text in it plain; of the same type."""
    return cast(T, _plained(value))


def _plained(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Struct):
        return replace(value, **{name: _plained(each) for name, each in asdict(value).items()})
    if isinstance(value, dict):
        return {_plained(key): _plained(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plained, value))
    return value
