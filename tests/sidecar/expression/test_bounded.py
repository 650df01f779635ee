"""Documents that are odd or hostile: each refused at once, in words, where it is wrong."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config import load
from sidecar.errors import SidecarError
from sidecar.expression.bounded import DEPTH_MAX, INTEGER_MAX, SCALAR_CHARS_MAX
from sidecar.expression.document import read
from sidecar.gateway.policy.files import load_bundle
from sidecar.twins.files import load_suite

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
HIGH = "\n".join(
    [f"h0: &h0 {'[' * 30}1{']' * 30}"]
    + [f"h{n}: &h{n} {'[' * 30}*h{n - 1}{']' * 30}" for n in range(1, 4)]
)
# text, the line it is refused at, and what is said
HOSTILE = {
    "bomb": (BOMB, 6, "more than 250000 values"),
    "merge": (BOMB.replace("[*", "[!!str , *"), 6, "more than 250000 values"),
    "endless": ("x: &x [*x]\n", 1, r"\*x stands in what it names"),
    "endless map": ("a: 1\nx: &x {y: {z: *x}}\n", 2, r"\*x stands in what it names"),
    "unknown alias": ("a: 1\nb: *none\n", 2, "undefined alias"),
    "deep": ("a: 1\nb: " + "[" * 5000 + "]" * 5000, 2, "nests deeper than 100"),
    "deep block": ("- " * 5000 + "x", 1, "nests deeper than 100"),
    "deep by aliases": (HIGH, 4, "nests deeper than 100"),
    "long number": ("a: " + "1" * 6000, 1, "more than 400 characters"),
    "large number": ("\na: 123456789012345678901234567890", 2, "beyond ±9007199254740991"),
    "small number": ("a: -9007199254740992", 1, "beyond ±9007199254740991"),
    "endless number": ("a: 1e999", 1, "no finite number"),
    "tagged number": ("a: !!int " + "1" * 6000, 1, "more than 400 characters"),
    "no number": ("a: !!int x", 1, "not YAML"),
    "half a pair": ('a:\n  b: "\\ud800"', 2, "half of a surrogate pair"),
    "half a pair as key": ('{"\\udc00": 1}', 1, "half of a surrogate pair"),
    "long text": ("a: " + "x" * (SCALAR_CHARS_MAX + 1), 1, "longer than 1048576 characters"),
    "set": ("a: !!set {x}", 1, "tag:yaml.org,2002:set is not taken"),
    "bytes": ("a: !!binary aGk=", 1, "tag:yaml.org,2002:binary is not taken"),
    "own tag": ("a: !x y", 1, "tag !x is not taken"),
    "object": ("a: !!python/object:os.system []", 1, "is not taken"),
    "number as key": ("a: {1: x}", 1, "key '1' is not text: quote it"),
    "nothing as key": ("? \n: x", 1, "is not text: quote it"),
    "list as key": ("? [a]\n: x", 1, "is not text: quote it"),
    "control character": ("a: 1\nb: \x00", 2, "is not allowed"),
    "two documents": ("a: 1\n---\nb: 1", 2, "not YAML"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_with_its_line_and_at_once(name):
    text, line, said = HOSTILE[name]
    started = time.monotonic()
    with pytest.raises(SidecarError, match=said) as error:
        read(text, name="x.yaml")
    assert error.value.where == f"x.yaml:{line}"
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("name", HOSTILE)
def test_configuration_suites_and_twins_refuse_it_alike(tmp_path, name):
    path = tmp_path / "x.yaml"
    path.write_text(HOSTILE[name][0])
    with pytest.raises(SidecarError):
        load(str(path), environ={})
    with pytest.raises(SidecarError):
        load_suite(path)
    (tmp_path / "suite.yaml").write_text("suite: s\ntwins: [x.yaml]\nscenarios: []\n")
    with pytest.raises(SidecarError, match=r"x\.yaml"):
        load_suite(tmp_path / "suite.yaml")


@pytest.mark.parametrize("text", [BOMB, "x: &x [*x]\n", "a: " + "[" * 5000])
def test_a_policy_bundle_refuses_it_too(tmp_path, text):
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises(SidecarError, match=r"data\.yaml"):
        load_bundle(tmp_path)


def test_what_is_within_the_bounds_is_read():
    deep = "[" * (DEPTH_MAX - 1) + "]" * (DEPTH_MAX - 1)
    text = (
        f"a: &a {{b: [1, 010, -{INTEGER_MAX}, 1e3]}}\nc: [*a, *a]\nd: {deep}\n"
        'e: "\\ud83d\\ude00"\nf: 2026-01-05\n<<: text\n'
    )
    value = read(text, name="x").value
    assert value["c"] == [value["a"]] * 2 == [{"b": [1, 10, -INTEGER_MAX, 1000.0]}] * 2
    assert (value["e"], value["f"], value["<<"]) == ("😀", "2026-01-05", "text")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-INTEGER_MAX, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab<é"), inner, max_size=4),
    max_leaves=20,
)


@given(value=JSON, ascii_only=st.booleans())
def test_json_is_read_as_json_reads_it(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read(text, name="x").value == json.loads(text)
