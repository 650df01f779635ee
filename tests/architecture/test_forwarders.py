"""A wrapper that forwards by ``__getattr__`` is not seen by the type checker: what it replaces has
the signature of the port it stands for, so that a port cannot grow away from it."""

import inspect

import pytest

from sidecar.chaos.process import _Ledger
from sidecar.replay.stage.driver import _ApprovingLedger
from sidecar.store.ports import GatewayLedger


@pytest.mark.parametrize("wrapper", [_ApprovingLedger, _Ledger])
def test_what_a_forwarder_replaces_has_the_ports_signature(wrapper):
    replaced = {name: each for name, each in vars(wrapper).items() if name[0] != "_"}
    assert replaced
    for name, each in replaced.items():
        assert takes(each) == takes(getattr(GatewayLedger, name)), name


def takes(method):
    return [
        (one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()
    ]
