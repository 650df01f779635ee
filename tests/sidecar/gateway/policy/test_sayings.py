"""What a bundle can say of a call, found in its rules and its data."""

import asyncio

import pytest

from sidecar.errors import SidecarError
from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.driver import sayings_of
from sidecar.gateway.policy.files import load_bundle

OWN = """\
package agenttwin.v1

deny contains {"code": "no_gold", "rule": "r"} if input.resource.id == "gold"

deny contains {"code": input.resource.id, "rule": "r"} if input.resource.id == "x"

deny contains {"code": "never", "rule": "r"} if input.resource.id in data.settings.none

hidden contains {"code": "unseen", "rule": "r"} if input.resource.id == "gold"

decide := {"effect": "deny", "reasons": [reason | some reason in deny]} if count(deny) > 0

decide := {"effect": "allow", "reasons": [{"code": "fine"}]} if count(deny) == 0

list := {"effect": "deny", "reasons": [reason | some reason in hidden]}
"""


def of(bundle):
    return {(one.set, one.code): one for one in asyncio.run(sayings_of(bundle))}


@pytest.mark.requirement("COV-01")
def test_the_shipped_bundle_says_what_its_data_lets_it_say():
    found = of(load_bundle())
    live = {key for key, one in found.items() if one.live}
    assert ("deny", "idempotency_key_required") in live and ("allow", "read_allowed") in live
    # A reason in a rule that a set goes through belongs to the set.
    assert ("require_approval", "amount_needs_approval") in live
    assert ("deny", "amount_too_large") in found.keys() - live
    assert found["allow", "read_allowed"].places == ("tool_calls/tool_calls.rego:10",)
    assert not any(code == "tool_hidden" for _, code in found)


def test_a_bundle_of_ones_own_is_read_alike():
    bundle = make_bundle([Module("own.rego", OWN)], [_data({"settings": {"none": []}})])
    found = of(bundle)
    # Answers that are written down whole are read too, with their effect.
    sets = {("deny", "no_gold"), ("deny", ""), ("deny", "never")}
    assert set(found) == {*sets, ("allow", "fine")}
    assert found["deny", "no_gold"].live and not found["deny", "never"].live


def test_a_bundle_that_may_not_decide_is_told():
    with pytest.raises(SidecarError) as refused:
        asyncio.run(sayings_of(make_bundle([Module("a.rego", "package agenttwin.v1\n")], [])))
    assert "cannot be used" in refused.value.text()


def _data(value):
    from sidecar.gateway.policy.bundle import DataFile

    return DataFile("data.yaml", (), value, "sha256:0")
