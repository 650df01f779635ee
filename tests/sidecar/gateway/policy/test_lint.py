"""The linter: what may make engines differ, or never end, or allow by absence, is found at load."""

import asyncio
from pathlib import Path

import pytest

from sidecar.errors import SidecarError
from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.driver import check_bundle
from sidecar.gateway.policy.files import load_bundle

ROOT = Path(__file__).parents[4]
HEAD = """package agenttwin.v1

import data.agenttwin.lib

decide := {"effect": "deny"} if input.x

list := {"effect": "deny"} if input.x
"""
LIBRARY = "package agenttwin.lib\n\nhelp(x) := x + 1\n"


def findings(text, head=HEAD):
    bundle = make_bundle([Module("a.rego", head + text), Module("lib.rego", LIBRARY)], [])
    return asyncio.run(check_bundle(bundle))


@pytest.mark.row("CVE-2022-36085")
@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ('r := http.send({"method": "get", "url": "http://x"})', "function", 8),
        ("r := time.now_ns()", "function", 8),
        ("r := opa.runtime()", "function", 8),
        ('r := net.lookup_ip_addr("x")', "function", 8),
        ('r := rand.intn("x", 3)', "function", 8),
        ('r := uuid.rfc4122("x")', "function", 8),
        ('r if { print("x") }', "function", 8),
        ('r := strings.count("x", "")', "function", 8),
        ("r := walk(input)", "function", 8),
        ("r := lib.absent(1)", "function", 8),
        ("r := data.agenttwin.lib.absent(1)", "function", 8),
        ("r := regex.match(input.p, input.x)", "pattern", 8),
        ("r := regex.match(`(?=a)`, input.x)", "pattern", 8),
        ('r := regex.replace(input.x, "(a", "b")', "pattern", 8),
        ("r := regex.match(`" + "a" * 501 + "`, input.x)", "pattern", 8),
        ("f(x) := g(x)\n\ng(x) := f(x)", "recursion", 8),
        ("r contains x if some x in r", "recursion", 8),
        ("r := data.agenttwin.v1[input.x]", "recursion", 8),
        ("r := data[input.x]", "recursion", 8),
        ("r if { help with help as 1 }\n\nhelp := 2", "with", 8),
        ("r if lower(input.x) == `a` with lower as upper", "with", 8),
        ("r if { data.agenttwin.lib.help(1) with data.agenttwin.lib as {} }", "with", 8),
        ('default r := {"effect": "allow", "reasons": []}', "default_allow", 8),
        ("default allow := true", "default_allow", 8),
        ("default allow_reads := true", "default_allow", 8),
        ('r := {"effect": "allow"} if not input.bad', "allow_by_absence", 8),
        ('allow contains {"code": "x"} if not input.bad', "allow_by_absence", 8),
        ("r if not is_string(input.x)", "negation", 8),
        ("r if not input.x >= 0", "negation", 8),
        ('r if not input.x in ["a"]', "negation", 8),
        ("r if not data.settings[input.x]", "negation", 8),
        ("r if { some x in input.xs; not x.y == 1 }", "negation", 8),
        ('r if { some x in input.xs; not lower(lower(x)) == "a" }', "negation", 8),
        ("g := input.x\n\nr if not is_string(g)", "negation", 10),
        ("x := 5 if input.y\n\nr if { some x; input.y[x] }", "shadow", 10),
        ("r if { count([1 | some list; input.y[list]]) > 0 }", "shadow", 8),
        ("r[x].q contains y if { some x, y in input.xs }", "head", 8),
        ("r[x][y] := 1 if { some x, y in input.xs }", "head", 8),
        (
            'r contains {"effect": "allow"} if { not input.bad; not input.worse }',
            "allow_by_absence",
            8,
        ),
    ],
)
def test_what_a_policy_must_not_contain_is_found_with_its_line(text, code, line):
    found = findings(text)
    assert (code, line) in {(each.code, each.line) for each in found}, found


@pytest.mark.parametrize(
    "text",
    [
        "r := lib.help(1)",
        "r := help(2)\n\nhelp(x) := data.agenttwin.lib.help(x)",
        "r if { regex.match(`^[a-z]+$`, input.x) }",
        "r := [y | some y in input.ys; y.r > 1]",
        "r if { some r1, v in input.o; v == r1; every x in input.xs { x > 1 } }",
        "f(r) := r\n\nr := f(1)",
        'r := {"effect": "allow"} if { input.good; not input.bad }',
        "r if { input.x with input.x as 1 with data.settings as {} }",
        "default r := false",
        "r if { some x in input.xs; not data.settings[x] }",
        "f(x) if { not is_string(x); not x in {1, 2}; not startswith(x, `a`) }",
        "r if { not input.a.b; not data.settings.c; not g }\n\ng if input.x",
        "default list_of := true",
        "r[x] := y if { some x, y in input.xs }",
        "r.q contains y if { some y in input.xs }",
    ],
)
def test_ordinary_policies_have_no_findings(text):
    assert findings(text) == ()


def test_both_entry_points_must_exist():
    found = findings("", head="package agenttwin.v1\n\ndecide := {} if input.x\n")
    assert [each.code for each in found] == ["entrypoint"]
    assert "data.agenttwin.v1.list" in found[0].text


@pytest.mark.parametrize(
    "text", ["r := ", "r { input.x }", 'r := $"{input.x}"', "a := 1\n\nif := 2", "(" * 50_000]
)
def test_a_policy_that_does_not_parse_is_refused_saying_where(text):
    with pytest.raises(SidecarError) as caught:
        findings(text)
    assert "a.rego" in caught.value.what or "ended" in caught.value.what
    assert "backtrace" not in caught.value.what


def test_the_bundles_that_ship_have_no_findings():
    for folder in ("", ROOT / "policies/examples/allow_all"):
        assert asyncio.run(check_bundle(load_bundle(folder))) == ()
