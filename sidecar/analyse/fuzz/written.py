"""The suite that a finding is written as."""

from msgspec import structs

from sidecar.analyse.fuzz.campaign import Finding
from sidecar.twins.scenario import Suite


def suite_of(finding: Finding, suite: Suite, twins: tuple[str, ...]) -> Suite:
    """The suite that a finding is a file of: its one scenario on the same twins."""
    return structs.replace(
        suite,
        suite=f"{suite.suite}-{finding.signature.key}",
        scenarios=(finding.scenario,),
        twins=twins,
    )
