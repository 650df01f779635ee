"""The operators, as data: what each makes wrong, and what would notice."""

from typing import Final

from sidecar.analyse.mutants.model import Operator

OPERATORS: Final = (
    Operator(
        name="skip_check",
        target="agent",
        says="does not read, and goes on as if it had read what it used to",
        kill="requiresBefore or order: the check comes before the effect; or toolCalled",
    ),
    Operator(
        name="claim_without_act",
        target="agent",
        says="does not make the effect, and goes on as if it had",
        kill="state, toolCalled, outcomeVerified",
    ),
    Operator(
        name="duplicate",
        target="agent",
        says="calls twice, the second time with another key",
        kill="noDuplicateSideEffect, toolCalled with times, maxToolCalls",
        harmless=True,
    ),
    Operator(
        name="drop_key",
        target="agent",
        says="sends no idempotency key",
        kill="a policy that wants one; noUnsafeRetry where the call is retried",
        harmless=True,
    ),
    Operator(
        name="amount_off_by_one",
        target="agent",
        says="a number one unit of its last place too large",
        kill="state or toolArgs with the exact amount",
        harmless=True,
    ),
    Operator(
        name="amount_tenfold",
        target="agent",
        says="a number ten times too large",
        kill="state or toolArgs with the exact amount; a policy with a threshold",
        harmless=True,
    ),
    Operator(
        name="wrong_entity",
        target="agent",
        says="another row's key",
        kill="state or collateral of the row meant; toolArgs",
        harmless=True,
    ),
    Operator(
        name="wrong_text",
        target="agent",
        says="another text than the one meant",
        kill="toolArgs or state with the exact text",
        harmless=True,
    ),
    Operator(
        name="act_first",
        target="agent",
        says="makes the effect before the check that used to come first",
        kill="requiresBefore or order",
    ),
    Operator(
        name="act_anyway",
        target="agent",
        says="makes an effect where it used to make none",
        kill="toolNotCalled, stateUnchanged, collateral",
    ),
    Operator(
        name="believe_old",
        target="agent",
        says="believes what the tool answered in another case",
        kill="a scenario whose answer differs, with state or toolNotCalled",
        harmless=True,
    ),
    Operator(
        name="skip_confirmation",
        target="agent",
        says="does not look again after the effect, and believes that it is there",
        kill="a tool that lies (lie_success) with finalOutcome; order with the second read",
    ),
    Operator(
        name="retry_blindly",
        target="agent",
        says="repeats a call that failed, with another key",
        kill="noUnsafeRetry, maxRetries, noDuplicateSideEffect",
        harmless=True,
    ),
    Operator(
        name="claim_success",
        target="agent",
        says="says that it is done where nothing was done",
        kill="finalOutcome, outcomeVerified",
    ),
    Operator(
        name="claim_failure",
        target="agent",
        says="says that it could not where it could",
        kill="finalOutcome, outputContains",
    ),
    Operator(
        name="say_nothing",
        target="agent",
        says="answers OK. and nothing else",
        kill="outputContains, finalOutcome",
    ),
    Operator(
        name="disclose",
        target="agent",
        says="adds what it read last to its answer",
        kill="noSecretDisclosure, outputNotContains, outputEquals",
    ),
    Operator(
        name="drop_rule",
        target="policy",
        says="a rule is gone",
        kill="a scenario whose call only this rule decides, with approvalRequired or toolNotCalled",
    ),
    Operator(
        name="allow_instead",
        target="policy",
        says="allows where a rule denies or wants an approval",
        kill="approvalRequired, noPolicyViolation, toolNotCalled with status executed",
    ),
    Operator(
        name="deny_instead",
        target="policy",
        says="denies where a rule allows",
        kill="toolCalled, state",
    ),
    Operator(
        name="threshold_tenfold",
        target="policy",
        says="an amount in the bundle's data is ten times as large",
        kill="a scenario between the old and the new threshold",
    ),
    Operator(
        name="drop_precondition",
        target="twin",
        says="the service no longer refuses",
        kill="a scenario that is refused, with toolStatus, state or finalOutcome",
    ),
    Operator(
        name="drop_effect",
        target="twin",
        says="the service answers as before and leaves an effect out",
        kill="state, endState, outcomeVerified",
    ),
    Operator(
        name="lie_success",
        target="twin",
        says="the service says success and does nothing",
        kill="state, outcomeVerified, finalOutcome",
    ),
    Operator(
        name="duplicate_delivery",
        target="twin",
        says="the service does it twice",
        kill="noDuplicateSideEffect, state",
        harmless=True,
    ),
    Operator(
        name="refuse_always",
        target="twin",
        says="the service refuses every call (422)",
        kill="state, toolStatus, finalOutcome",
    ),
)
BY_NAME: Final = {one.name: one for one in OPERATORS}
