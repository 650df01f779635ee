"""A twin without problems can be served: what the gateway refuses of a tool is found beforehand."""

import pytest

from sidecar.errors import SidecarError
from sidecar.twins.files import load_twins
from sidecar.twins.registry import registry

pytestmark = pytest.mark.requirement("TWN-01")

TWIN = """\
twin: shop
upstream: shop
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{id}"}
    class: read
    response: {body: '"one"'}
  - name: refund
    match: {method: POST, path: "/orders/{id}/refunds"}
    preconditions: [{require: 'true', status: 404}]
"""


def written(folder, text, name="twin.yaml"):
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_the_twin_as_it_is_has_no_problem(tmp_path):
    assert set(registry(load_twins([written(tmp_path, TWIN)]).group).tools) == {
        "get_order",
        "refund",
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("/orders/{id}/refunds", "/orders/{id}", None),
        ("method: GET", "method: get", "twin.yaml:5: tools.0.match.method 'get' is no method"),
        ("/orders/{id}/r", "/{id}/{id}/r", "tools.1.match.path names a parameter twice"),
        ("/orders/{id}/r", "/x{id}/r", "a parameter is a whole segment"),
        ("upstream: shop", "upstream: mcp", "twin.yaml:2: upstream 'mcp' cannot be an upstream"),
        ("twin: shop\nupstream: shop", "twin: v1", "twin.yaml:1: twin 'v1' cannot be an upstream"),
        ("class: read", "class: read\n    upstream: a/b", "tools.0.upstream 'a/b' cannot be"),
        ("    preco", "    timeout: 0s\n    preco", "tools.1.timeout 0s is shorter than 1ms"),
        (
            "    preco",
            "    idempotency: {retention: soon}\n    preco",
            "tools.1.idempotency.retention 'soon' is not a duration",
        ),
        (
            "    preco",
            '    reconcile: {get: "/x", done: "true", settle: soon}\n    preco',
            "tools.1.reconcile.settle 'soon' is not a duration",
        ),
        ("    preco", "    cost: {amount: '1 +'}\n    preco", "tools.1.cost.amount CEL"),
        ("{body:", "{status: 99999, body:", "tools.0.response.status must be 200 to 599"),
        ("status: 404", "status: 100", "tools.1.preconditions.0.status must be 200 to 599"),
        (
            "{body:",
            '{headers: {"X-A": "a\\r\\nSet-Cookie: b"}, body:',
            "tools.0.response.headers.X-A cannot stand in an answer's head",
        ),
    ],
)
def test_what_cannot_be_served_is_a_problem_of_the_twin(tmp_path, old, new, said):
    changed = TWIN.replace(old, new)
    assert changed != TWIN
    path = written(tmp_path, changed)
    if said is None:  # of another method it is another request
        load_twins([path])
        path = written(tmp_path, changed.replace("POST", "GET"))
        said = "tools.1.match is the same as that of 'get_order'"
    with pytest.raises(SidecarError) as refused:
        load_twins([path])
    assert said in str(refused.value)


def test_what_collides_between_twins_is_told(tmp_path):
    first = written(tmp_path, TWIN)
    twice = load_twins([first, first]).group.problems()
    assert "2 twins are called 'shop'" in str(twice[0])
    text = TWIN.replace("twin: shop", "twin: other").replace("name: ", "name: other_")
    beside = load_twins([first, written(tmp_path, text, "other.yaml")]).group.problems()
    assert [str(one) for one in beside] == [
        "twins: 'other_get_order': its match is the same as that of 'get_order'",
        "twins: 'other_refund': its match is the same as that of 'refund'",
    ]
