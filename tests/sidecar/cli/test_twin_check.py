"""``sidecar twin check`` as a user types it: every problem of every file at once, with its line,
and what a twin leaves open.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sidecar.cli.twin import command

pytestmark = pytest.mark.requirement("TWN-01")
ROOT = Path(__file__).parents[3]
GOOD = """\
twin: shop
fidelity: {faithful: [orders]}
flags: {open: true}
entities:
  orders:
    key: id
    schema: {type: object, required: [id], properties: {id: {type: string}, total: {type: string}}}
    rows: [{id: A-1, total: "5.00"}]
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    let: {found: 'row("orders", arguments.order_id)'}
    preconditions: [{require: 'flags.open && found != null', status: 404}]
    response: {body: found}
"""
WRONG = """\
twin: shop
entities:
  orders: {key: id, rows: [{total: "5.00"}]}
tools:
  - name: get_order
    match: {method: GET, path: orders}
    class: read
    response: {body: 'row("order", arguments.id)'}
  - name: close_order
    match: {method: POST, path: "/close"}
    class: write
    effects: [{op: set, entity: shops, key: arguments.id, values: {open: 'nobody'}}]
"""
LOOSE = """\
twin: loose
flags: {never_read: 1, read: 2}
entities:
  users: {key: id, rows: [{id: U-1, api_key: k-1234567890}]}
  orders:
    key: id
    schema: {type: object, properties: {id: {type: string}}}
queues:
  empty: {handle: {}}
  full: {}
  looked_at: {}
tools:
  - name: order
    match: {method: POST, path: /orders}
    class: write
    arguments:
      schema:
        type: object
        properties: {id: {type: string}, note: {type: string}}
    let: {used: arguments.id, unused: arguments.id}
    effects:
      - {op: insert, entity: orders, values: {id: used}}
      - {op: enqueue, queue: full, message: {}}
      - {op: enqueue, queue: looked_at, message: {read: flags.read}}
    response: {body: 'size(waiting("looked_at"))'}
  - name: forget
    match: {method: DELETE, path: /orders}
    class: write
"""
SUITE = """\
suite: orders
twins: [shop.yaml]
scenarios:
  - id: reads
    input: A-1
    state: {shops: []}
    expect: [{type: toolCalled, tool: get_orders}]
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in (("shop", GOOD), ("wrong", WRONG), ("loose", LOOSE), ("suite", SUITE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def check(*arguments):
    ended = CliRunner().invoke(command, ["check", *map(str, arguments)], standalone_mode=False)
    return ended.return_value, ended.stdout


def findings(*files):
    code, said = check(*files, "--output", "json")
    told = json.loads(said)
    assert told["exit_code"] == code
    return told["findings"], code


def test_a_twin_without_a_remark_is_good(folder):
    code, said = check(folder / "shop.yaml")
    assert (code, said) == (0, "1 twin: 0 problems, 0 warnings\n")


def test_all_problems_of_a_twin_are_told_at_once_with_their_lines(folder):
    found, code = findings(folder / "wrong.yaml")
    assert code == 1
    assert [(one["line"], one["path"]) for one in found] == [
        (6, "tools.0.match.path"),
        (12, "tools.1.effects.0.entity"),
        (8, "tools.0.response.body"),
        (12, "tools.1.effects.0.values.open"),
        (3, "entities.orders.rows.0"),
    ]


def test_one_bad_file_hides_nothing_of_another(folder):
    (folder / "no.yaml").write_text("a: [b")
    code, said = check(folder / "no.yaml", folder / "wrong.yaml", folder / "suite.yaml")
    assert code == 1
    assert f"{folder}/no.yaml:1: problem: it is not YAML" in said
    assert f"{folder}/wrong.yaml:6: problem: tools.0.match.path must start with /" in said
    assert f"{folder}/suite.yaml:6: problem: scenarios.0.state.shops there is no entity" in said
    assert f"{folder}/suite.yaml:7: problem: scenarios.0.expect.0 names the tool" in said
    assert said.endswith("1 twin, 1 suite: 8 problems, 0 warnings\n")


def test_a_suite_is_told_the_problems_of_its_twins_and_a_twin_named_twice_is_told_once(folder):
    (folder / "shop.yaml").write_text(WRONG)
    found, code = findings(folder / "suite.yaml", folder / "shop.yaml")
    assert code == 1
    assert {Path(one["file"]).name for one in found} == {"shop.yaml"}
    assert len(found) == 5


def test_what_is_declared_and_never_used_is_a_warning(folder):
    found, code = findings(folder / "loose.yaml")
    assert code == 0
    assert {(one["line"], one["path"], one["severity"]) for one in found} == {
        (1, "", "warning"),
        (2, "flags.never_read", "warning"),
        (4, "entities.users", "warning"),
        (4, "entities.users.schema.properties.api_key", "warning"),
        (9, "queues.empty", "warning"),
        (10, "queues.full", "warning"),
        (20, "tools.0.let.unused", "warning"),
        (19, "tools.0.arguments.schema.properties.note", "warning"),
        (26, "tools.1", "warning"),
    }
    texts = " ".join(one["text"] for one in found)
    assert "no tool, queue or fault uses this table" in texts
    assert "users.api_key looks like a secret" in texts


def test_a_warning_has_an_exit_code_of_its_own_when_asked(folder):
    assert check(folder / "loose.yaml", "--warn-exit", "7")[0] == 7


def test_nothing_is_said_of_what_a_computed_name_or_code_may_use(tmp_path):
    computed = LOOSE.replace("""'size(waiting("looked_at"))'""", "'rows(arguments.id)'")
    (tmp_path / "twin.yaml").write_text(computed)
    paths = {one["path"] for one in findings(tmp_path / "twin.yaml")[0]}
    assert "queues.looked_at" in paths and "flags.never_read" in paths
    found, _ = findings(tmp_path / "twin.yaml")
    assert "no tool, queue or fault uses this table" not in " ".join(one["text"] for one in found)
    airline = ROOT / "sidecar" / "twins" / "examples" / "airline" / "twin.yaml"
    assert all("uses" not in one["text"] for one in findings(airline)[0])


def test_code_that_cannot_be_loaded_is_a_problem_and_not_a_traceback(tmp_path):
    (tmp_path / "shop.py").write_text("1 / 0\n")
    (tmp_path / "twin.yaml").write_text(GOOD + "code: {file: shop.py}\n")
    found, code = findings(tmp_path / "twin.yaml")
    assert code == 1
    assert "ZeroDivisionError" in found[0]["text"]


def test_a_file_that_is_not_there_is_no_verdict_on_the_twin(folder):
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "twin", "check", "gone.yaml", "shop.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert done.returncode == 3
    assert done.stdout.splitlines()[0].startswith("gone.yaml: problem: the file cannot be read")
    assert done.stdout.splitlines()[-1] == "1 twin: 1 problem, 0 warnings"
    assert done.stderr == ""


CLAIMS = """\
twin: bank
secrets: [accounts.pin, accounts.owner.ssn, accounts, cards.cvv, accounts.iban]
fidelity:
  faithful: [accounts.balance, accounts.pin, flags]
  unfaithful: {accounts.pin: hashed in life, loans: ""}
unenforced:
  - {what: pay.memo, why: nobody reads it}
  - {what: the limit of 100 calls a minute}
flags: {open: true}
entities:
  accounts:
    key: id
    schema: {type: object, properties: {id: {}, pin: {}, balance: {}, owner: {}, updated_at: {}}}
    rows: [{id: A-1, pin: 493027, balance: "1.00"}]
tools:
  - name: pay
    match: {method: POST, path: "/accounts/{id}"}
    class: write
    arguments: {schema: {type: object, properties: {id: {type: string}, memo: {type: string}}}}
    preconditions: [{require: flags.open}]
    effects: [{op: set, entity: accounts, key: arguments.id, values: {balance: '"0.00"'}}]
"""
SAID = """\
suite: bank
twins: [bank.yaml]
scenarios:
  - id: pays
    input: pay
    expect:
      - {type: state, entity: accounts, key: A-1, equals: {balance: "0.00"}}
      - {type: state, that: 'flags.open'}
      - {type: state, entity: accounts, key: A-1, exists: true}
      - {type: noSecretDisclosure, declared: true}
      - {type: state, entity: accounts, key: A-1, equals: {pin: 1}}
      - {type: state, entity: accounts, key: A-1, equals: {updated_at: now}}
      - {type: state, that: 'row("accounts", "A-1").updated_at != ""'}
      - {type: milestones, reach: [{id: m, entity: accounts, key: A-1, equals: {pin: 1}}]}
      - {type: endState, changes: {accounts: {A-1: {id: A-1, pin: 1, balance: "0.00"}}}}
      - {type: stateUnchanged}
"""


def test_what_a_twin_claims_of_what_it_has_not_is_a_problem(folder):
    (folder / "bank.yaml").write_text(CLAIMS)
    found, code = findings(folder / "bank.yaml")
    assert code == 1
    assert [(one["line"], one["path"]) for one in found] == [
        (2, "secrets.2"),
        (2, "secrets.3"),
        (2, "secrets.4"),
        (4, "fidelity.faithful.1"),
        (5, "fidelity.unfaithful.loans"),
    ]


def test_what_is_not_enforced_is_listed_and_what_is_claimed_is_no_warning(folder):
    right = CLAIMS.replace(", accounts, cards.cvv, accounts.iban", "").replace(', loans: ""', "")
    (folder / "bank.yaml").write_text(
        right.replace("accounts.balance, accounts.pin,", "accounts.balance,")
    )
    found, code = findings(folder / "bank.yaml")
    assert code == 0
    assert [(one["line"], one["severity"], one["text"]) for one in found] == [
        (7, "note", "not enforced: pay.memo (nobody reads it)"),
        (8, "note", "not enforced: the limit of 100 calls a minute"),
    ]
    assert check(folder / "bank.yaml", "--warn-exit", "7")[0] == 0


def test_a_scenario_may_expect_only_what_its_twins_are_faithful_about(folder):
    right = CLAIMS.replace(", accounts, cards.cvv, accounts.iban", "").replace(', loans: ""', "")
    (folder / "bank.yaml").write_text(
        right.replace("accounts.balance, accounts.pin,", "accounts.balance,")
    )
    (folder / "bank-suite.yaml").write_text(SAID)
    found, code = findings(folder / "bank-suite.yaml")
    told = [(one["line"], one["text"]) for one in found if one["severity"] == "problem"]
    assert code == 1
    assert [line for line, _ in told] == [11, 12, 13, 14, 15]
    assert "not faithful about accounts.pin (hashed in life)" in told[0][1]
    assert "does not claim to be faithful about accounts.updated_at" in told[1][1]


def test_declared_secrets_need_a_twin_that_declares_some(folder):
    expected = "expect: [{type: noSecretDisclosure, declared: true}]"
    suite = SUITE.replace("expect: [{type: toolCalled, tool: get_orders}]", expected)
    (folder / "suite.yaml").write_text(suite.replace("    state: {shops: []}\n", ""))
    found, code = findings(folder / "suite.yaml")
    assert (code, [one["text"] for one in found]) == (1, ["no twin of the suite declares secrets"])
