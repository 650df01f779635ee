"""Bundles on disk: what is part of one, what is refused, and whether the engine is the pinned."""

import importlib.metadata
import sys

import pytest

from sidecar.errors import SidecarError
from sidecar.gateway.policy import files
from sidecar.gateway.policy.files import check_engine, default_bundle_path, load_bundle

RULE = "package agenttwin.v1\n\ndecide := {} if input.x\n"


def write(root, **contents):
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def test_a_bundle_is_its_rules_and_data_and_neither_tests_nor_examples(tmp_path):
    root = write(
        tmp_path,
        a_dot_rego=RULE,
        a_test_dot_rego=RULE,
        sub__b_dot_rego=RULE,
        examples__c_dot_rego=RULE,
        schema__data_dot_json="{}",
        _dot_hidden__d_dot_rego=RULE,
        notes_dot_txt="x",
        data_dot_yaml='settings: {a: 1, b: "100.00"}',
        sub__data_dot_json='{"n": [1.5]}',
    )
    bundle = load_bundle(root)
    assert [module.path for module in bundle.modules] == ["a.rego", "sub/b.rego"]
    assert bundle.data == {"settings": {"a": 1, "b": "100.00"}, "sub": {"n": [1.5]}}
    assert [m.path for m in load_bundle(root, tests=True).modules][1] == "a_test.rego"


def test_the_revision_follows_every_byte_that_decides_and_nothing_else(tmp_path):
    root = write(tmp_path, a_dot_rego=RULE, data_dot_json='{"a": 1}')
    first = load_bundle(root).revision
    write(root, a_test_dot_rego=RULE, readme_dot_md="x")
    assert load_bundle(root).revision == first
    write(root, data_dot_json='{"a": 2}')
    second = load_bundle(root).revision
    write(root, a_dot_rego=RULE + "\n")
    assert len({first, second, load_bundle(root).revision}) == 3


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        ({}, "no .rego file"),
        ({"a_test_dot_rego": RULE}, "no .rego file"),
        ({"a_dot_rego": b"\xff"}, "a.rego is not UTF-8"),
        ({"a_dot_rego": "#" * (1024**2 + 1)}, "a.rego is larger"),
        ({"a_dot_rego": RULE, "data_dot_json": '{"a": 1, "a": 2}'}, "stands twice"),
        ({"a_dot_rego": RULE, "data_dot_yaml": "a: 1\na: 2"}, "stands twice"),
        ({"a_dot_rego": RULE, "data_dot_yaml": "a: [1"}, "data.yaml"),
        ({"a_dot_rego": RULE, "data_dot_yaml": "a: 2020-01-01"}, "data.yaml"),
        ({"a_dot_rego": RULE, "data_dot_yaml": "a: .nan"}, "data.yaml"),
        ({"a_dot_rego": RULE, "data_dot_yaml": "1"}, "object at the top"),
        (
            {"a_dot_rego": RULE, "data_dot_yaml": "a: 1", "data_dot_json": '{"a": 1}'},
            "set by another file",
        ),
    ],
)
def test_a_broken_bundle_is_refused_saying_what_and_where(tmp_path, contents, why):
    with pytest.raises(SidecarError, match=why) as caught:
        load_bundle(write(tmp_path, **contents))
    assert caught.value.where == str(tmp_path)


def test_a_missing_bundle_is_refused(tmp_path):
    with pytest.raises(SidecarError, match="missing or no folder"):
        load_bundle(tmp_path / "absent")


@pytest.mark.row("CVE-2024-8260", "CVE-2026-78573")
def test_a_link_out_of_the_folder_is_refused(tmp_path):
    write(tmp_path, secret_dot_rego=RULE, bundle__a_dot_rego=RULE)
    (tmp_path / "bundle/b.rego").symlink_to(tmp_path / "secret.rego")
    with pytest.raises(SidecarError, match=r"b\.rego is a link out"):
        load_bundle(tmp_path / "bundle")


def test_the_default_bundle_is_found_and_loads():
    assert default_bundle_path().is_dir()
    assert "decide.rego" in {module.path for module in load_bundle().modules}


def test_the_installed_engine_is_the_pinned_one():
    assert check_engine() == "regorus/0.13.0"


def test_an_engine_overwritten_by_another_wheel_is_refused(tmp_path, monkeypatch):
    (tmp_path / "regorus").mkdir()
    (tmp_path / "regorus/__init__.py").write_text("Engine = None")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "regorus", raising=False)
    with pytest.raises(SidecarError, match="is not that of gordon-to-regorus"):
        check_engine()


def test_other_bytes_or_another_version_of_the_engine_are_refused(tmp_path, monkeypatch):
    real = importlib.metadata.distribution("gordon-to-regorus")
    extension = next(f for f in real.files if f.name.endswith(".so"))
    copy = tmp_path / extension.name
    copy.write_bytes(b"other")
    with pytest.raises(SidecarError, match="another wheel wrote over it"):
        files._check_hash(copy, extension.hash.value)
    monkeypatch.setattr(files, "VERSION", "0.14.0")
    with pytest.raises(SidecarError, match=r"is 0\.13\.0, not 0\.14\.0"):
        check_engine()
