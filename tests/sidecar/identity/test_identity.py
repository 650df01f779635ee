"""Who is calling: the order in which credentials count, client certificates, organisations."""

import asyncio
import threading

import pytest

from processors.model.principal import Authn, Grant, Presented, Principal
from sidecar.identity.certificate import CertificateGrants
from sidecar.identity.config import CertificateGrant, Config, Organisation, organisation_problems
from sidecar.identity.driver import Identity
from sidecar.identity.keys import KeyTerms, Unauthenticated, mint_key

AGENT = "uri:spiffe://shop/agent"
GRANTS = (
    CertificateGrant(san="spiffe://shop/agent", project="shop", name="agent", tools=("refund",)),
    CertificateGrant(san="ci.internal", project="ops", kind="reader", role="engineer"),
)
SECRET = b"\x07" * 32


class FarKeys:
    """Keys that are told only once the event loop has gone on."""

    def __init__(self, row):
        self.row, self.gone_on = row, threading.Event()

    def find_key(self, key_id):
        assert self.gone_on.wait(10), "the loop waits for the keys"
        return self.row


class Keys:
    def __init__(self, *rows):
        self.rows = {row.key_id: row for row in rows}

    def find_key(self, key_id):
        return self.rows.get(key_id)


def key(**terms):
    return mint_key(KeyTerms(**terms), id_bytes=b"\x01" * 8, secret_bytes=SECRET, now_ns=1)


def who(presented, *rows, now_ns=10, organisations=None):
    identity = Identity(
        Keys(*rows), lambda: now_ns, organisations=organisations,
        certificates=CertificateGrants(GRANTS),
    )  # fmt: skip
    return asyncio.run(identity(presented))


@pytest.mark.requirement("REC-05")
def test_a_verified_name_is_whom_the_configuration_says():
    assert who(Presented(certificate=(AGENT,))) == Principal(
        id="mtls:spiffe://shop/agent", kind="agent", project="shop", name="agent",
        tools=("refund",), authn=Authn(method="certificate"),
    )  # fmt: skip
    ci = who(Presented(certificate=("dns:CI.internal", "dns:other")))
    assert (ci.project, ci.kind, ci.role, ci.name) == ("ops", "reader", "engineer", "ci.internal")


@pytest.mark.requirement("GW-07")
@pytest.mark.parametrize(
    "names",
    [
        ("uri:spiffe://shop/agent/",),
        ("uri:SPIFFE://shop/agent",),
        ("dns:spiffe://shop/agent",),
        ("uri:ci.internal",),
        ("dns:x.ci.internal",),
        ("dns:*",),
        ("dns:",),
        (AGENT, "dns:ci.internal"),  # two principals
    ],
)
def test_a_name_that_is_not_exactly_one_principals_is_nobodys(names):
    with pytest.raises(Unauthenticated):
        who(Presented(certificate=names))


def test_a_certificate_never_makes_up_for_a_bad_key_and_a_key_counts_before_it():
    text, row = key(kind="reader", project="ops")
    shown = Presented(authorization=f"Bearer {text}", certificate=(AGENT,))
    assert who(shown, row).project == "ops"
    for bad in (f"Bearer {text[:-1]}!", "", "Bearer x", "Basic eDp5"):
        with pytest.raises(Unauthenticated):
            who(Presented(authorization=bad, certificate=(AGENT,)), row)
    with pytest.raises(Unauthenticated):
        who(Presented())


def test_nothing_waits_for_keys_that_lie_elsewhere():
    text, row = key(kind="reader", project="ops")
    far = FarKeys(row)
    identity = Identity(far, lambda: 10, remote=True)

    async def run():
        asked = asyncio.create_task(identity(Presented(authorization=f"Bearer {text}")))
        await asyncio.sleep(0)
        far.gone_on.set()
        assert (await asked).project == "ops"
        with pytest.raises(Unauthenticated):
            await identity(Presented(authorization=f"Bearer {text[:-2]}xx"))

    asyncio.run(run())


def test_a_key_of_an_organisation_acts_in_its_projects_only():
    text, row = key(kind="admin", organisation="acme")
    shown = Presented(authorization=f"Bearer {text}")
    found = who(shown, row, organisations={"acme": ("a", "b"), "other": ("c",)})
    assert found.project == "a" and found.role == "admin"
    assert found.grants == (Grant(project="a", role="admin"), Grant(project="b", role="admin"))
    for gone in ({}, {"acme": ()}):
        with pytest.raises(Unauthenticated):
            who(shown, row, organisations=gone)


def test_an_agents_key_of_an_organisation_opens_nothing():
    text, row = key(kind="agent", organisation="acme")
    with pytest.raises(Unauthenticated):
        who(Presented(authorization=f"Bearer {text}"), row, organisations={"acme": ("a",)})


@pytest.mark.parametrize(
    ("grant", "path"),
    [
        (CertificateGrant(san="", project="p"), "mtls.0.san"),
        (CertificateGrant(san="*.internal", project="p"), "mtls.0.san"),
        (CertificateGrant(san="a", project="q"), "mtls.0.project"),
        (CertificateGrant(san="a", project="p", role="owner"), "mtls.0.role"),
    ],
)
def test_a_certificate_grant_that_could_not_hold_is_refused(grant, path):
    assert path in [each.path for each in Config(mtls=(grant,)).problems(["p"], ())]


def test_a_name_stands_once():
    twice = CertificateGrant(san="a.internal", project="p")
    found = Config(mtls=(twice, CertificateGrant(san="A.internal", project="p"))).problems(
        ["p"], ()
    )
    assert [each.path for each in found] == ["mtls.1.san"]


@pytest.mark.parametrize(
    ("organisations", "path"),
    [
        ([("a b", ("p",))], "0.name"),
        ([("a", ())], "0.projects"),
        ([("a", ("x",))], "0.projects"),
        ([("a", ("p",)), ("a", ("q",))], "1.name"),
        ([("a", ("p",)), ("b", ("p",))], "1.projects"),
    ],
)
def test_organisations_hold_projects_that_exist_each_once(organisations, path):
    given = [Organisation(name=name, projects=projects) for name, projects in organisations]
    assert path in [each.path for each in organisation_problems(given, ["p", "q"])]
