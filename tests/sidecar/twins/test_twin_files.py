"""The documents a suite was read from are kept, each under a name of its own."""

import pytest
from suite_rig import SUITE, TWIN

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
