"""What a header that decides something means, whatever its client's way to write it.

**Rules**
1. Only what RFC 9110 calls the same is the same; a value that is not read in full here means
   itself.
2. ``Accept: */*`` means what no ``Accept`` means. The order of what is accepted is kept: servers
   go by it.
3. What is sent is what came: this decides equality (§0.6), never the wire.

Source: RFC 9110 §5.6, §8.3.1, §8.8.3, §12.4.2, §12.5.1, §13.1, §14.2.
"""

import re
from functools import lru_cache

from sidecar.gateway.content import Headers

AUTHZEN = "application/authzen+json"
_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_RANGE = re.compile(rf"(\*/\*|{_WORD}/\*|{_WORD}/{_WORD})((?:[ \t]*;[ \t]*{_WORD}={_WORD})*)\Z")
_PARAMETER = re.compile(rf"({_WORD})=({_WORD})")
_QUOTED = re.compile(rf'({_WORD})=(?:"({_WORD})"|({_WORD}))\Z')
_BLANKS = re.compile(r"[ \t]")
_WEIGHT = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\Z")
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\Z')
_TAGS = re.compile(r'(?:W/)?"[^"]*"|[^,]+')
_BYTES = re.compile(r"bytes[ \t]*=[ \t]*([0-9, \t-]+)\Z", re.IGNORECASE)
_ANYTHING = "*/*"


def meant(headers: Headers) -> list[tuple[str, str]]:
    """Deciding headers by what they mean; those that mean nothing are left out."""
    return [(name, value) for name, text in headers if (value := _meaning(name, text)) is not None]


def wants_authzen(accept: str) -> bool:
    """Whether a client names AuthZEN's form of an answer among those it takes."""
    return any(_essence(each) == AUTHZEN for each in accept.split(","))


def for_upstream(accept: str) -> str:
    """What a client takes of a tool: without the form that only the gateway answers in."""
    kept = [each.strip() for each in accept.split(",") if _essence(each) != AUTHZEN]
    return ", ".join(each for each in kept if each)


@lru_cache(maxsize=1024)
def _meaning(name: str, value: str) -> str | None:
    if name == "accept":
        return _accept(value)
    if name in ("if-match", "if-none-match"):
        return _tags(value)
    if name == "range":
        found = _BYTES.match(value)
        return f"bytes={_BLANKS.sub('', found[1])}" if found else value
    return _type(value) if name == "content-type" else value


def _accept(value: str) -> str | None:
    ranges = [_media_range(each.strip()) for each in value.split(",") if each.strip()]
    if not ranges or None in ranges:
        return value
    return None if ranges == [_ANYTHING] else ",".join(map(str, ranges))


def _media_range(text: str) -> str | None:
    """One range in one spelling; None where it is not plainly one (quoted values may be)."""
    match = _RANGE.match(text)
    if match is None:
        return None
    found = [match[1].lower()]
    for name, given in _PARAMETER.findall(match[2]):
        lowered = name.lower()
        if lowered != "q":
            found.append(f"{lowered}={given}")
        elif not _WEIGHT.match(given):
            return None
        elif (weight := given.rstrip("0").rstrip(".") if "." in given else given) != "1":
            found.append(f"q={weight}")
    return ";".join(found)


def _tags(value: str) -> str:
    tags = [each.strip(" \t") for each in _TAGS.findall(value)]
    tags = [each for each in tags if each]
    return ",".join(tags) if tags and all(map(_TAG.match, tags)) else value


def _type(value: str) -> str:
    """A media type without spaces, in lower case but for the values of parameters other than
    charset."""
    essence, *parameters = (each.strip() for each in value.split(";"))
    found = [essence.lower()]
    for each in parameters:
        match = _QUOTED.match(each)
        if match is None:
            return value
        name, given = match[1].lower(), match[2] or match[3]
        found.append(f"{name}={given.lower() if name == 'charset' else given}")
    return ";".join(found)


def _essence(text: str) -> str:
    return text.partition(";")[0].strip().lower()
