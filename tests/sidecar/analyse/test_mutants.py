"""Mutants of an agent and of its world, each on real twins: what is noticed, and what is not."""

import json

import pytest
from msgspec import structs

from processors.model.evidence import Outcome
from sidecar.analyse.mutants.agent import Tampered
from sidecar.analyse.mutants.judging import UNTOUCHED, judged, scored
from sidecar.analyse.mutants.model import Mutant, Shown
from sidecar.analyse.mutants.operators import BY_NAME, OPERATORS
from sidecar.analyse.mutants.policies import Turned, loosened, turned
from sidecar.analyse.mutants.sites import Known, agent_mutants, larger
from sidecar.analyse.mutants.world import mutated_case, mutated_group, twin_mutants
from sidecar.gateway.policy.bundle import DataFile, Module, make_bundle
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.gateway.policy.sayings import Saying
from sidecar.replay.direct import run_direct
from sidecar.twins.files import load_suite
from sidecar.twins.scenario import cases

TWIN = """\
twin: bank
flags: {open: true}
entities:
  accounts:
    key: id
    rows: [{id: A-1, owner: ada, paid: "0.00"}, {id: A-2, owner: wei, paid: "0.00"},
           {id: A-9, owner: eve, paid: "0.00"}]
  payments: {key: id, rows: []}
tools:
  - name: look
    match: {method: GET, path: "/accounts/{id}"}
    class: read
    let: {account: 'row("accounts", arguments.id)'}
    response: {body: account}
  - name: rules
    match: {method: GET, path: /rules}
    class: read
    response: {body: {open: flags.open}}
  - name: pay
    match: {method: POST, path: "/accounts/{id}/pay"}
    class: irreversible
    effect_key: arguments.id
    idempotency: {header: Idempotency-Key}
    let: {payment: 'next_id("P")', account: 'row("accounts", arguments.id)'}
    preconditions: [{require: 'account.owner != "eve"', status: 409, body: {error: '"no"'}}]
    effects:
      - {op: set, entity: accounts, key: arguments.id, values: {paid: arguments.amount}}
      - {op: insert, entity: payments, values: {id: payment, note: arguments.note}}
    response: {body: {done: 'true'}}
"""
SUITE = """\
suite: pays
twins: [twin.yaml]
scenarios:
  - {id: pays, input: A-1, expect: &paid [
      {type: state, that: 'row("accounts", "A-1").paid == "5.00"'},
      {type: noDuplicateSideEffect}, {type: requiresBefore, tool: rules, before: pay},
      {type: finalOutcome, claim: success}]}
  - {id: closed, input: A-2, flags: {open: false}, expect: [
      {type: stateUnchanged}, {type: outputContains, text: cannot}]}
  - {id: lied-to, input: A-1, faults: [{fault: lie_success, tool: pay}], expect: [
      {type: outputContains, text: cannot}]}
"""
LOOSE = """\
suite: loose
twins: [twin.yaml]
scenarios:
  - {id: pays, input: A-1, expect: [{type: toolCalled, tool: look}]}
"""


def payer(request, call):
    """Looks at the rules, pays, and looks whether it is paid."""
    name = request["input"]
    call("look", {"id": name})
    if not call("rules", {}).value.get("open"):
        return f"I cannot pay {name}: it is closed."
    call("pay", {"id": name, "amount": "5.00", "note": "rent"}, "key-1")
    if call("look", {"id": name}).value.get("paid") != "5.00":
        return f"I cannot say that {name} is paid."
    return f"I have paid {name}."


class Bench:
    """A suite on twins without a gateway: its runs as they are, and with a mutant."""

    def __init__(self, folder, suite, agent):
        (folder / "twin.yaml").write_text(TWIN)
        (folder / "suite.yaml").write_text(suite)
        self.loaded = load_suite(folder / "suite.yaml")
        self.group = self.loaded.group
        self.cases = {one.id: one for one in cases(self.loaded.suite)}
        self._agent = agent
        keys = {f"A-{n}": "bank.accounts" for n in (1, 2, 9)}
        self.known = Known(runs={}, tools=self.group.tools, keys=keys, seed=3)
        self.known = structs.replace(
            self.known, runs={name: self.shown(name) for name in self.cases}
        )

    def shown(self, name, mutant=None):
        made = []
        case, group = self.cases[name], self.group
        if mutant is not None and mutant.target == "twin":
            case, group = mutated_case(case, mutant), mutated_group(group, mutant)

        def run(request, call):
            of_agent = mutant if mutant is not None and mutant.target == "agent" else None
            made.append(Tampered(of_agent, self.known, name, call))
            return made[0].answer(self._agent(request, made[0].call))

        done = run_direct(case, run, group, group.open())
        return Shown(
            case=name,
            passed=done.conclusion == "passed" and done.void is None,
            void=done.void,
            effects=tuple(
                f"{event.tool} {json.dumps(event.arguments)}"
                for event in done.events
                if event.changes
            ),
            answer=done.trace.final_output or "",
            heard=tuple(made[0].heard),
            acted=made[0].acted or (mutant is not None and mutant.target == "twin"),
        )

    def ends(self, mutants):
        found = {}
        for mutant in mutants:
            pairs = [(self.known.runs[name], self.shown(name, mutant)) for name in mutant.cases]
            found[mutant.id] = judged(mutant, pairs)
        return found


@pytest.fixture
def strict(tmp_path):
    return Bench(tmp_path, SUITE, payer)


@pytest.fixture
def loose(tmp_path):
    return Bench(tmp_path, LOOSE, payer)


def names(found, ending):
    return {name for name, one in found.items() if one.ending == ending}


@pytest.mark.requirement("COV-01")
def test_a_strict_suite_kills_what_is_wrong_and_calls_harmless_what_is(strict):
    assert all(run.passed for run in strict.known.runs.values())
    found = strict.ends(agent_mutants(strict.known))
    assert names(found, "killed") == {
        *("duplicate pay", "skip_check rules", "act_first rules", "believe_old rules"),
        *("claim_without_act pay", "act_anyway pay", "skip_confirmation look"),
        *("amount_off_by_one pay amount", "amount_tenfold pay amount", "wrong_entity pay id"),
        *("claim_success", "claim_failure", "say_nothing", "wrong_entity look id"),
    }
    assert found["skip_confirmation look"].by == "lied-to"
    assert found["believe_old rules"].by == "closed"
    assert names(found, "equivalent") >= {"duplicate look", "duplicate rules", "drop_key pay"}
    # The note is in no expectation, and nobody looks at what else the answer says.
    assert names(found, "survived") >= {"wrong_text pay note", "disclose"}
    assert names(found, "void") == set()


@pytest.mark.requirement("COV-01")
def test_a_loose_suite_is_told_by_its_survivors(strict, loose):
    tight = scored("s", list(strict.ends(agent_mutants(strict.known)).values()), cases=3,
                   unusable={}, runs=0)  # fmt: skip
    found = loose.ends(agent_mutants(loose.known))
    assert {"amount_tenfold pay amount", "claim_without_act pay", "duplicate pay"} <= names(
        found, "survived"
    )
    slack = scored("s", list(found.values()), cases=1, unusable={}, runs=0)
    assert slack.score < 0.5 < tight.score
    whole = sum((slack.killed, slack.survived, slack.equivalent, slack.void))
    assert (
        whole
        == len(slack.judged)
        == sum(sum((one.killed, one.survived, one.equivalent, one.void)) for one in slack.operators)
    )


@pytest.mark.requirement("COV-01")
def test_a_world_that_is_wrong_is_noticed_where_a_case_meets_it(strict):
    found = strict.ends(twin_mutants(strict.known, strict.group))
    assert names(found, "killed") >= {
        *("drop_effect pay 1", "lie_success pay", "refuse_always rules", "refuse_always pay"),
    }
    # No case is refused: nobody can tell whether the rule is there.
    assert found["drop_precondition pay 1"].why == UNTOUCHED
    assert found["drop_precondition pay 1"].ending == "survived"
    assert found["drop_effect pay 2"].ending == "survived"
    # The service knows the key again, so that what came twice was done once.
    assert found["duplicate_delivery pay"].ending == "equivalent"


@pytest.mark.requirement("COV-01")
def test_the_same_seed_makes_the_same_mutants_and_another_other_rows(strict):
    first = [mutant.id for mutant in agent_mutants(strict.known)]
    assert first == [mutant.id for mutant in agent_mutants(strict.known)]
    rows = {
        structs.replace(strict.known, seed=seed).another("wrong_entity", "pays", "A-1")
        for seed in range(20)
    }
    assert rows == {"A-2", "A-9"}


def test_every_operator_is_made_somewhere_and_says_what_would_kill_it(strict):
    made = {one.operator for one in agent_mutants(strict.known)}
    made |= {one.operator for one in twin_mutants(strict.known, strict.group)}
    own = {one.name for one in OPERATORS if one.target != "policy"}
    assert own - made == {"retry_blindly"}  # no call of this suite fails
    assert all(one.says and one.kill for one in OPERATORS) and len(BY_NAME) == len(OPERATORS)


@pytest.mark.parametrize(
    ("value", "one_more", "tenfold"),
    [("49.00", "49.01", "490.00"), ("7", "8", "70"), (3, 4, 30), (0.5, 0.6, 5.0)],
)
def test_numbers_are_made_larger_by_their_own_last_place(value, one_more, tenfold):
    assert larger(value, times=1, plus=True) == one_more
    assert larger(value, times=10, plus=False) == tenfold
    assert larger("ORD-1", times=1, plus=True) is None and larger(True, times=1, plus=True) is None


@pytest.mark.requirement("COV-01")
def test_a_void_run_is_no_kill():
    mutant = Mutant(operator="duplicate", target="agent", tool="t", cases=("a",))
    own = Shown(case="a", passed=True, void=None, effects=(), answer="x")
    void = structs.replace(own, passed=False, void="twin_gap: t")
    failed = structs.replace(own, case="b", passed=False, why="state")
    assert judged(mutant, [(own, void)]).ending == "void"
    assert judged(mutant, [(own, void), (own, failed)]).by == "b"
    idle = structs.replace(own, acted=False, passed=False)
    assert judged(mutant, [(own, idle)]).why == UNTOUCHED
    assert Outcome().status == "unverified"


def test_a_word_is_turned_round_only_where_it_is_the_whole_reason():
    from processors.model.call import Reason

    sayings = (
        Saying(set="deny", code="a", places=("x:1",), live=True),
        Saying(set="allow", code="b", places=("x:2",), live=True),
        Saying(set="deny", code="never", places=("x:3",), live=False),
    )
    words = {mutant.id: word for mutant, word in turned(sayings)}
    assert set(words) == {"allow_instead deny:a", "deny_instead allow:b"}
    deny = PolicyAnswer(effect="deny", reasons=(Reason(code="a"),))
    assert words["allow_instead deny:a"].answer(deny).effect == "allow"
    both = PolicyAnswer(effect="deny", reasons=(Reason(code="a"), Reason(code="c")))
    assert words["allow_instead deny:a"].answer(both) == both
    limited = PolicyAnswer(effect="allow_with_limits", reasons=(Reason(code="b"),))
    assert words["deny_instead allow:b"].answer(limited).effect == "deny"
    assert Turned("deny", "z", "allow").answer(deny) == deny


def test_amounts_of_a_bundle_are_made_ten_times_as_large_one_by_one():
    data = {"settings": {"from": {"EUR": "100.00", "USD": "5"}, "name": "ten", "off": "0"}}
    bundle = make_bundle(
        [Module("a.rego", "package a\n")], [DataFile("data.yaml", (), data, "sha256:0")]
    )
    made = {mutant.place: other for mutant, other in loosened(bundle)}
    assert set(made) == {"settings.from.EUR", "settings.from.USD"}
    assert made["settings.from.EUR"].data["settings"]["from"] == {"EUR": "1000.00", "USD": "5"}
    assert len({bundle.revision, *(one.revision for one in made.values())}) == 3
