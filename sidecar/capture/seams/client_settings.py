"""What model clients take from the environment when they are made: there where a tape is replayed.

**Rules**
1. A recording says which keys were set, by name and never by value, and what the endpoints were.
2. A strict replay sets what is missing: keys to a stand-in, since nothing is sent; endpoints to
   what they were. So a client can be made where it could be made, on a machine that has no key.
   What the agent's own files read is the seam ENV's, and comes from the tape.
3. After the session the environment is what it was.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from sidecar.capture.exchange import HIDDEN

ATTRIBUTE: Final = "client_settings"
_KEYS: Final = frozenset(
    (
        *("OPENAI_ADMIN_KEY", "ANTHROPIC_AUTH_TOKEN", "AZURE_OPENAI_AD_TOKEN", "HF_TOKEN"),
        *("REPLICATE_API_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    )
)
_KEY_END: Final = "_API_KEY"
_ENDPOINTS: Final = (
    *("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_VERSION", "OPENAI_API_TYPE"),
    *("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "AZURE_OPENAI_ENDPOINT", "ANTHROPIC_BASE_URL"),
)
_NAMES_MAX: Final = 100


def found() -> dict[str, Any]:
    """What is set here, for a recording's first event."""
    names = sorted(name for name in os.environ if _is_key(name))[:_NAMES_MAX]
    endpoints = {name: os.environ[name] for name in _ENDPOINTS if name in os.environ}
    plain = {name: value for name, value in endpoints.items() if "@" not in value}
    said = {**({"keys": names} if names else {}), **({"endpoints": plain} if plain else {})}
    return {ATTRIBUTE: said} if said else {}


def stand_in(attributes: Mapping[str, Any]) -> dict[str, str | None]:
    """Set what a recording had and this process has not; what was there before, to be put back."""
    said = attributes.get(ATTRIBUTE)
    before: dict[str, str | None] = {}
    if not isinstance(said, dict):
        return before
    wanted: dict[str, str] = {}
    for name in said.get("keys") or ():
        if isinstance(name, str) and _is_key(name) and name not in os.environ:
            wanted[name] = HIDDEN
    for name, value in (said.get("endpoints") or {}).items():
        if name in _ENDPOINTS and os.environ.get(name) != value:
            wanted[name] = str(value)
    for name, value in wanted.items():
        before[name] = os.environ.get(name)
        os.environ[name] = value
    return before


def put_back(before: Mapping[str, str | None]) -> None:
    """The environment as it was."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _is_key(name: str) -> bool:
    return name.endswith(_KEY_END) or name in _KEYS
