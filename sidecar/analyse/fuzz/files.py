"""Findings on disk: one ``suite.yaml`` each, with where it comes from above it.

Rules
1. A finding's file is a suite like any other, its twins named relative to it: read by the same
   reader, it fails on the agent that it was found on.
2. The same finding has the same name, and is written over.
"""

import os
from pathlib import Path

import yaml

from sidecar.analyse.fuzz.campaign import CONFIRM, Finding
from sidecar.analyse.fuzz.written import suite_of
from sidecar.errors import SidecarError
from sidecar.expression.written import written
from sidecar.twins.scenario import Suite


def write_finding(
    folder: Path, finding: Finding, suite: Suite, *, suite_path: Path, agent: str, seed: int
) -> Path:
    """Write one finding. Raises SidecarError where the folder cannot be written."""
    path = folder / f"{finding.scenario.id}.yaml"
    here = suite_path.resolve().parent
    twins = tuple(os.path.relpath(here / name, folder.resolve()) for name in suite.twins)
    document = written(suite_of(finding, suite, twins))
    text = "".join(f"# {line}\n" for line in _told(finding, agent, seed)) + yaml.safe_dump(
        document, sort_keys=False, allow_unicode=True, width=100
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SidecarError(
            f"the finding cannot be written: {error.strerror}", where=str(path)
        ) from None
    return path


def _told(finding: Finding, agent: str, seed: int) -> list[str]:
    lines = [
        f"{finding.signature.rule}: {finding.detail}",
        f"Found on {agent} from scenario {finding.base}, seed {seed}, episode {finding.episode} "
        f"({finding.arm}); {finding.hits} of {CONFIRM} runs failed so.",
        *(f"- {one.told()}" for one in finding.genome),
    ]
    return [" ".join(line.split()) for line in lines]
