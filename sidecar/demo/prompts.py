"""The versions of the refund agent: a version is its system prompt, and nothing else differs.

Rules
1. 1.2.4 is good; 1.3.0 was made quicker and refunds before it has read the policy and believes a
   200; 1.3.1 is the repair.
2. The scripted model never sees the version number, only the prompt: what an agent is told decides
   what it does.
"""

from importlib import resources

VERSIONS = ("1.2.4", "1.3.0", "1.3.1")
BASELINE = "1.2.4"


def system_prompt(version: str) -> str:
    """The system prompt of a version. Raises KeyError for a version there is none of."""
    if version not in VERSIONS:
        raise KeyError(version)
    return (resources.files("sidecar.demo") / "assets" / "prompts" / f"{version}.txt").read_text(
        "utf-8"
    )
