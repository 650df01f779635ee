"""What the demo says of a run's outcome names all that stands against it, each once."""

from processors.model.evidence import Contradiction, Outcome
from processors.model.trace import AgentTrace
from sidecar.demo.act_refund import concluded


def test_every_contradiction_is_told_once():
    said = ("its result says it", "the agent said it", "its result says it")
    found = tuple(Contradiction(code="claimed_success_state_failed", detail=d) for d in said)
    outcome = Outcome(status="contradicted", contradictions=found)
    assert concluded(AgentTrace(trace_id="c" * 32, outcome=outcome)) == (
        "The sidecar concludes contradicted: its result says it; the agent said it"
    )
