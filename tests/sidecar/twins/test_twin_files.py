"""The documents a suite was read from are kept, each under a name of its own."""

import pytest
from suite_rig import SUITE, TWIN

from sidecar.errors import SidecarError
from sidecar.twins.files import load_suite, load_twins

ENTITY = "entities:\n  orders: {key: id, schema: {file: row.json}, rows: [{id: A-1, open: true}]}\n"


def twin(folder, name, schema):
    folder.mkdir(parents=True)
    text = TWIN.replace("twin: shop", f"twin: {name}").replace("get_order", f"{name}_get")
    head, _, rest = text.partition("entities:")
    rest = rest[rest.index("tools:") :]
    (folder / "twin.yaml").write_text(head + ENTITY + rest)
    (folder / "row.json").write_text(schema)
    return folder / "twin.yaml"


@pytest.mark.requirement("EVD-01")
def test_documents_of_one_name_in_several_folders_are_all_kept(tmp_path):
    schemas = ('{"type": "object"}', '{"type": "object", "required": ["id"]}')
    paths = [
        twin(tmp_path / "twins" / name, name, schema)
        for name, schema in zip(("shop", "bank"), schemas, strict=True)
    ]
    home = tmp_path / "suites"
    home.mkdir()
    names = "[../twins/shop/twin.yaml, ../twins/bank/twin.yaml]"
    text = SUITE.replace("[twin.yaml]", names).replace("get_order", "shop_get")
    (home / "suite.yaml").write_text(text)
    files = load_suite(home / "suite.yaml").files
    assert sorted(files) == [
        "../twins/bank/row.json",
        "../twins/bank/twin.yaml",
        "../twins/shop/row.json",
        "../twins/shop/twin.yaml",
        "suite.yaml",
    ]
    assert {files[f"../twins/{name}/row.json"].decode() for name in ("shop", "bank")} == {*schemas}
    assert len(load_twins(paths).files) == 4


BASE = SUITE.replace("suite: orders", "suite: hostile")
LAYERS = "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]\n"
    for below, name in zip("abcdef", "bcdefg", strict=True)
)
DUPLICATE = "  - {id: reads, input: x, expect: [{type: outputContains, text: open}]}\n"
DEEP = "[" * 200 + "]" * 200


@pytest.mark.requirement("SCN-01")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x, x, x, x, x, x, x, x, x]\n" + LAYERS, "more than 250000 values"),
        (BASE + "#" * 10_000_000, "longer than 8388608 characters"),
        (BASE.replace("A-1", "x" * 2_000_000), "a text is longer"),
        (BASE.replace("A-1", DEEP), "deeper than 100 levels"),
        (BASE.replace("A-1", "&x [*x]"), "stands in what it names"),
        (BASE.replace("A-1", "1e999"), "no finite number"),
        (BASE.replace("A-1", "9" * 30), "integers JSON holds exactly"),
        (BASE.replace("A-1", "!!python/object/apply:os.system [id]"), "tag"),
        (BASE.replace("severity: critical", "severity: critical\n    severity: minor"), "twice"),
        (BASE + DUPLICATE, "suite.yaml:10: scenarios.1.id 'reads' is empty or stands twice"),
        (BASE + "fairness: [{id: f, scenarios: [reads], margin: .nan}]\n", "must be a number"),
        (BASE.replace("id: reads", 'id: "\\ud800"'), "half of a surrogate pair"),
        (BASE.replace("deadline: 30s", "deadline: 1e9999s"), "is not a duration"),
        (BASE + "environment: {A=B: x}\n", "'A=B' cannot be a variable's name"),
        (BASE + 'environment: {A: "x\\0"}\n', "holds the character 0"),
        (BASE.replace("[twin.yaml]", "[.]"), "cannot be read"),
        (BASE.replace("[twin.yaml]", "[/dev/zero]"), "longer than"),
        (BASE + "---\n" + BASE, "another document"),
        ("", "suite.yaml:1: suite is missing"),
        ("- 1\n", "must be a mapping"),
    ],
)  # fmt: skip
def test_a_hostile_suite_is_refused_with_its_place_before_anything_is_built(tmp_path, text, said):
    (tmp_path / "twin.yaml").write_text(TWIN)
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with pytest.raises(SidecarError) as told:
        load_suite(path)
    assert said in told.value.text()
    assert str(tmp_path) in told.value.text() or "/dev/zero" in told.value.text()
    assert int(told.value.code) == 3
