"""Claims: what the agent's side said happened, wherever it said so.

Rules
1. A claim proves nothing; ``contradict`` and ``outcome`` set it against evidence.
2. Where it is said: ``declared`` (``agenttwin.claim.*``), ``results`` (what a tool's result says of
   itself), ``spoken`` (the final answer). Claims of an optional extractor (source ``llm``) that the
   trace already bears are kept.
3. One claim a subject, status, source, step and sentence. Success and failure of one subject may
   both stand: an answer may speak of two targets.
4. The same trace gives the same claims, ids included.

Source: docs/specs/claims.md.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from processors.model.evidence import Claim
from processors.model.names import SideEffectClass
from processors.model.trace import AgentTrace
from processors.verify.declared import declared, declares
from processors.verify.naming import nameables
from processors.verify.results import tells, told
from processors.verify.spoken import spoken


def claims(
    trace: AgentTrace, tools: Mapping[str, SideEffectClass] | None = None
) -> tuple[Claim, ...]:
    """Every claim of a trace: declared ones and those of results in the steps' order, then the
    final answer's, then an extractor's.

    ``tools`` are the registry's names and classes; a claim may name a tool that was never called.
    """
    heard = [claim for claim in trace.claims if claim.source == "llm"]
    declaring = [step for step in trace.steps if step.attributes and declares(step)]
    telling = [step for step in trace.steps if step.tool is not None and tells(step)]
    if not (trace.final_output or heard or declaring or telling):
        return ()
    known = nameables(trace, tools or {})
    unique: dict[tuple[object, ...], Claim] = {}
    for claim in (
        *declared(declaring, known),
        *told(telling, known),
        *spoken(trace.final_output, known),
        *heard,
    ):
        where = claim.step_id if claim.source == "tool_result" else claim.text
        key = (claim.subject, claim.status, claim.source, where, claim.objects, claim.amount)
        if key not in unique:
            unique[key] = replace(claim, claim_id=f"claim-{len(unique) + 1}")
    return tuple(unique.values())
