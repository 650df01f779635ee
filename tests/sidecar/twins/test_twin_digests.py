"""A twin's digest is over what its document says: a key nobody used changes none."""

import pytest

from sidecar.twins.files import load_twins

pytestmark = pytest.mark.requirement("TWN-05")
TWIN = """\
twin: shop
tools: [{name: get_order, match: {method: GET, path: /order}, class: read}]
"""
KEPT = "sha256:919804b0b7a6267f842ea64d62a9ca7800a2482f74ba3db487ec4c3ebf502e3b"


def digest_of(tmp_path, text):
    path = tmp_path / "twin.yaml"
    path.write_text(text)
    return load_twins([path]).group.digests()["shop"]


def test_keys_that_came_later_leave_the_digests_of_twins_that_do_not_use_them(tmp_path):
    assert digest_of(tmp_path, TWIN) == KEPT


def test_what_is_said_by_them_counts(tmp_path):
    described = TWIN.replace("class: read", "class: read, description: Reads it.")
    assert digest_of(tmp_path, described) != KEPT
