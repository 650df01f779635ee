"""Where engines are known to part: every built-in a policy may call, on odd values.

A small bundle has one rule for each built-in of the linter's allow-list. A real OPA server with
strict errors and the embedded engine are asked each rule on the same inputs: equal value, or no
answer on both sides (an error and undefined both deny), or an error of the embedded engine only.
"""

import asyncio
import json

import pytest
from opa_rig import opa_server
from policy_rig import rule_answers

from sidecar.canonical import canonical
from sidecar.egress.client import Egress
from sidecar.egress.rules import Target
from sidecar.gateway.policy import release
from sidecar.gateway.policy.lint import BUILTINS

CALLS = {
    **{name: f"{name}(input.x)" for name in (
        "count", "sum", "product", "max", "min", "sort", "abs", "ceil", "floor", "round",
        "to_number", "array.reverse", "object.keys", "object.union_n", "union", "intersection",
        "trim_space", "strings.reverse", "is_array", "is_boolean", "is_null",
        "is_number", "is_object", "is_set", "is_string", "type_name", "json.is_valid",
        "base64.decode", "base64.encode", "base64.is_valid", "hex.decode", "hex.encode",
        "semver.is_valid", "time.clock", "time.date", "time.weekday",
        "time.parse_rfc3339_ns", "time.parse_duration_ns",
    )},
    **{name: f"{name}(input.x, input.y)" for name in (
        "array.concat", "object.remove", "object.union", "object.filter",
        "contains", "startswith", "endswith", "trim", "trim_left", "trim_right",
        "trim_prefix", "trim_suffix", "split", "concat", "sprintf", "strings.any_prefix_match",
        "strings.any_suffix_match", "json.filter", "json.remove",
        "semver.compare", "net.cidr_contains", "format_int",
    )},
    # Not by millions: both count long.
    "numbers.range": "[z | input.y < 99; input.x < 99; z := numbers.range(input.x, input.y)]",
    "array.slice": "array.slice(input.x, 0, input.y)",
    "object.get": "object.get(input.x, input.y, 7)",
    "substring": "[substring(input.x, 1, 2), substring(input.x, 0, -1)]",
    "replace": 'replace(input.x, "a", input.y)',
    "glob.match": 'glob.match("a*.[a-c]?", ["."], input.x)',
    "regex.match": "regex.match(`^[a-z]+$`, input.x)",
    "regex.replace": 'regex.replace(input.x, `[aeiou]`, "$0$0")',
    "regex.split": "regex.split(`[, ]+`, input.x)",
    "regex.find_n": "regex.find_n(`[a-z]+`, input.x, 2)",
    "time.add_date": "time.add_date(input.x, 0, 1, input.y)",
}  # fmt: skip
OPERATORS = {
    "equal": "input.x == input.y",
    "unequal": "input.x != input.y",
    "less": "input.x < input.y",
    "at_most": "input.x <= input.y",
    "plus": "input.x + input.y",
    "minus": "input.x - input.y",
    "times": "input.x * input.y",
    "over": "input.x / input.y",
    "rest": "input.x % input.y",
    "in": "input.x in input.y",
    "set": "{input.x, input.y}",
    "absent": 'object.get(input, "z", null) == null',
    "denied": "[1 | not input.z]",
    "indexed": "input.x[input.y]",
}
ARITHMETIC = {f"op_{name}" for name in ("plus", "minus", "times", "over", "rest")}
# The embedded engine errs, which denies, where OPA says false or formats what is left over.
STRICTER = {
    "b_base64_is_valid",
    "b_json_is_valid",
    "b_semver_is_valid",
    "b_glob_match",
    "b_sprintf",
}
TEXTS = ("", "a", "ab.c", "A,b  c", "İstanbul", "ﬁne ß", "00", "1.0.0-rc1", "1.0.0", "127.0.0.1")
VALUES = (
    *(None, True, False, 0, 1, -1, 2, 0.1, 2.5, 1e20, 2**53 - 1, 2**53 + 1, 10**22),
    *TEXTS,
    *("10.0.0.0/8", "2027-01-04T00:00:00Z", "1h30m", '{"a":1}', "YQ==", "6162", "é\u0000"),
    *([], [1, 2], ["b", "a"], [[1], [1, 2]], {}, {"a": 1}, {"b": {"a": [None]}}),
    [{"a": 1}, {"b": 2}],
    *(1_799_020_800_000_000_000,),
)  # fmt: skip


def rules():
    """Rule name to expression."""
    calls = {f"b_{name.replace('.', '_')}": text for name, text in CALLS.items()}
    return {**calls, **{f"op_{name}": text for name, text in OPERATORS.items()}}


def inputs():
    """Every value as x beside some values as y; the same on every run."""
    for place, x in enumerate(VALUES):
        for step in (1, 4, 9, 13):
            yield {"x": x, "y": VALUES[(place * step + step) % len(VALUES)]}


def test_there_is_a_rule_for_every_built_in_a_policy_may_call():
    assert CALLS.keys() == BUILTINS


async def opa_answers(port, names, documents):
    """OPA's answers: the value, None undefined, or "error"."""
    egress = Egress()
    target = Target(name="opa", url=f"http://127.0.0.1:{port}", allow_cidrs=("127.0.0.1/32",))

    async def ask(name, document):
        reply = await egress.request(
            target,
            "POST",
            f"/v1/data/seams/{name}?strict-builtin-errors=true",
            [("content-type", "application/json")],
            json.dumps({"input": document}).encode(),
            deadline_ns=30_000_000_000,
            reuse=True,
        )
        if reply.status != 200:
            return "error"
        return json.loads(reply.body).get("result")

    try:
        return [[await ask(name, each) for each in documents] for name in names]
    finally:
        await egress.close()


@pytest.mark.full  # some thousand questions to two engines
@pytest.mark.requirement("GW-03")
def test_every_built_in_answers_as_opa_does_or_errs_where_it_errs(tmp_path):
    text = "package seams\n\n" + "\n\n".join(f"{name} := {how}" for name, how in rules().items())
    archive = release.make({"seams.rego": text.encode()})
    names, documents = sorted(rules()), list(inputs())
    with opa_server(archive, tmp_path) as (port, _):
        theirs = asyncio.run(opa_answers(port, names, documents))
    ours = asyncio.run(rule_answers(text, names, documents))
    wrong = [
        (name, document, mine, other)
        for name, row, others in zip(names, ours, theirs, strict=True)
        for document, mine, other in zip(documents, row, others, strict=True)
        if not same(mine, other) and not is_beyond(name, document)
    ]
    silent = [each for each in wrong if each[2] != "error"]
    assert silent == [], f"{len(silent)} differ without an error"
    assert {name for name, *_ in wrong} == STRICTER


def is_beyond(name, document):
    """Arithmetic on numbers beyond 2**53 - 1: OPA counts on exactly, the other as doubles do."""
    numbers = [each for each in document.values() if type(each) in (int, float)]
    return name in ARITHMETIC and any(abs(each) > 2**53 - 1 for each in numbers)


def same(mine, other):
    """Equal; or no answer on both sides, where undefined and an error deny alike."""
    if mine in ("error", None) and other in ("error", None):
        return True
    try:
        return canonical(mine) == canonical(other)
    except ValueError:
        return mine == other
