"""Expectations about how a run was conducted, as the detectors saw it."""

from processors.model.detection import SEVERITIES
from sidecar.evaluate.expectations import NoDetections
from sidecar.evaluate.judgement import Judgement, failed, passed
from sidecar.evaluate.observed import Observed


def no_detections(expected: NoDetections, observed: Observed) -> Judgement:
    """No detection of the given codes, at least as grave as given."""
    least = SEVERITIES.index(expected.severity)
    found = [
        one
        for one in observed.trace.detections
        if (not expected.codes or one.code in expected.codes)
        and SEVERITIES.index(one.severity) >= least
    ]
    if not found:
        return passed("no detector found anything" if not expected.codes else "not detected")
    worst = max(found, key=lambda one: SEVERITIES.index(one.severity))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return failed(
        f"{worst.code}, {worst.severity}: {worst.sentence}{more}",
        worst.steps[-1] if worst.steps else None,
        evidence=worst.steps,
    )
