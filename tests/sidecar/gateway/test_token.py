"""Approval tokens and who may approve: everything that is not exactly right is refused."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from processors.model.call import Action, Approval, ApprovalTerms, Decision, Obligation, Vote
from processors.model.principal import Principal, StepUp
from sidecar.gateway import approval as approvals
from sidecar.gateway import signing, token
from sidecar.gateway.action import action_hash
from sidecar.gateway.config import Approvals
from sidecar.store.ledger import OpenedCall

SECOND = 1_000_000_000
NOW = 1_764_000_000 * SECOND
KEY = signing.SigningKey(signing.make(bytes(32), 1))
STRANGER = signing.SigningKey(signing.make(b"\x01" * 32, 1))
KEYS = {KEY.kid: KEY.public}
APPROVED = Approval(
    approval_id="ap", project="p", requester="agent", requester_name="Ann", tool="refund",
    action_hash="sha256:a", key_hash="hmac:k", policy_revision="r", tool_digest="d",
    status="approved", summary="s", requested_at_ns=NOW, expires_at_ns=NOW + 600 * SECOND,
    decide_by_ns=NOW + 600 * SECOND, execute_by_ns=NOW + 1200 * SECOND,
    shown_digest="sha256:s",
    votes=(Vote(voter="v", decision="approve", reason="ok", voted_at_ns=1, shown_digest="x"),),
)  # fmt: skip


def mint(approval=APPROVED, signer=KEY, now_ns=NOW):
    return token.mint(approval, signer, gateway_id="g", now_ns=now_ns)


def read(text, *, keys=KEYS, gateway_id="g", now_ns=NOW):
    return token.read(text, keys, gateway_id=gateway_id, now_ns=now_ns)


def b64(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header=None, claims=None, signer=KEY):
    """A token signed by ours (or another's) key with changed header or claims."""
    head, body, _ = mint().split(".")
    found_head = {**json.loads(base64.urlsafe_b64decode(head + "==")), **(header or {})}
    found_body = {**json.loads(base64.urlsafe_b64decode(body + "==")), **(claims or {})}
    found_head = {key: value for key, value in found_head.items() if value is not ...}
    found_body = {key: value for key, value in found_body.items() if value is not ...}
    signed = f"{b64(found_head)}.{b64(found_body)}"
    return f"{signed}.{b64(signer.sign(signed.encode()))}"


def test_a_token_says_what_was_approved_by_whom():
    claims = read(mint())
    assert (claims.sub, claims.act, claims.idk, claims.pol, claims.tool, claims.jti) == (
        *("agent", "sha256:a", "hmac:k"),
        *("r", "d", "ap"),
    )
    assert claims.apr == (token.Approver(sub="v", shown="x"),)
    assert (claims.exp - claims.iat, claims.max_uses) == (600, 1)
    head = json.loads(base64.urlsafe_b64decode(mint().split(".")[0] + "=="))
    assert head == {"alg": "EdDSA", "typ": "agw-approval+jwt", "kid": KEY.kid}
    assert read(forged()) == claims  # the forger below does make good tokens


@pytest.mark.row("T24")
@pytest.mark.row("CVE-2026-44428")
@pytest.mark.requirement("APR-01")
@pytest.mark.parametrize(
    "changes",
    [
        {"header": {"alg": "none"}},
        {"header": {"alg": "HS256"}},
        {"header": {"alg": "eddsa"}},
        {"header": {"typ": "JWT"}},
        {"header": {"typ": ...}},
        {"header": {"kid": "../../etc/passwd"}},
        {"header": {"kid": ...}},
        {"header": {"kid": None}},
        {"header": {"kid": ["x"]}},
        {"header": {"jwk": {"kty": "OKP"}}},
        {"header": {"crit": []}},
        {"header": {"b64": False}},
        {"claims": {"exp": ...}},
        {"claims": {"exp": "1764000600"}},
        {"claims": {"exp": 1_764_000_000}},
        {"claims": {"iat": 1_764_000_001}},
        {"claims": {"nbf": 1_764_000_001}},
        {"claims": {"aud": "another"}},
        {"claims": {"iss": "another"}},
        {"claims": {"aud": ["g"]}},
        {"claims": {"max_uses": 2}},
        {"claims": {"admin": True}},
        {"claims": {"act": ...}},
        {"claims": {"idk": ...}},
        {"signer": STRANGER},
    ],
)
def test_a_token_with_anything_wrong_proves_nothing(changes):
    with pytest.raises(token.TokenInvalid):
        read(forged(**changes))


def test_a_token_expires_at_its_second_and_has_no_leeway():
    assert read(mint(), now_ns=NOW + 600 * SECOND - 1)
    with pytest.raises(token.TokenInvalid, match="expired"):
        read(mint(), now_ns=NOW + 600 * SECOND)


@given(st.data())
def test_no_changed_character_survives(data):
    text = mint()
    index = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("ABCxyz012-_.=+/ é"))
    changed = text[:index] + other + text[index + 1 :]
    if changed != text:
        with pytest.raises(token.TokenInvalid):
            read(changed)


@given(st.text(max_size=60) | st.builds(".".join, st.lists(st.text(max_size=9), max_size=4)))
def test_nonsense_is_refused_without_a_fuss(text):
    with pytest.raises(token.TokenInvalid):
        read(text)


# Who may approve


def voter(**fields):
    return Principal(**{"id": "v", "kind": "approver", "project": "p", "name": "Bob", **fields})


@pytest.mark.row("T31")
@pytest.mark.requirement("GW-07")
@pytest.mark.parametrize(
    ("who", "code"),
    [
        (voter(), None),
        (voter(name=""), None),
        (voter(kind="agent"), "approver_not_eligible"),
        (voter(kind="episode"), "approver_not_eligible"),
        (voter(kind="admin"), "approver_not_eligible"),
        (voter(kind="reader"), "approver_not_eligible"),
        (voter(project="q"), "approver_not_eligible"),
        (voter(id="agent"), "self_approval"),
        (voter(name="ann "), "self_approval"),
    ],
)
def test_only_another_persons_approver_key_of_the_project_decides(who, code):
    assert approvals.why_not_eligible(APPROVED, who, Approvals()) == code


@pytest.mark.requirement("APR-01")
def test_who_answers_for_an_agent_does_not_approve_its_calls():
    asked = structs.replace(APPROVED, requester_owner="Ann Lee")
    assert approvals.why_not_eligible(asked, voter(name="ann  lee"), Approvals()) == "self_approval"
    assert approvals.why_not_eligible(asked, voter(name="ben"), Approvals()) is None
    loose = Approvals(distinct_from=("requester",))
    assert approvals.why_not_eligible(asked, voter(name="ann lee"), loose) is None


PLAIN = Action(
    tenant="p", agent="a", tool="t", upstream="u", class_="irreversible", method="POST", path="/x"
)
OTHER = {
    "class_": "write", "query": (("a", "b"),), "headers": (("accept", "x"),), "mode": "twin",
    "arguments": {"amount": 1}, "cost_amount": "1", "cost_currency": "EUR", "media_type": "x/y",
    "body_digest": "sha256:1", "body_jcs_digest": "sha256:2",
}  # fmt: skip


@pytest.mark.requirement("APR-01")
@pytest.mark.parametrize("name", Action.__struct_fields__)
def test_each_field_of_an_action_that_is_another_is_named(name):
    """§7 C."""
    other = structs.replace(PLAIN, **{name: OTHER.get(name, "other")})
    assert action_hash(other) != action_hash(PLAIN)
    secret, told = b"s" * 32, approvals.field_digests(PLAIN, b"s" * 32, "ap")
    assert approvals.changed_fields(told, PLAIN, secret, "ap") == ()
    assert approvals.changed_fields(told, other, secret, "ap") == (name,)
    assert not set(told) & set(approvals.field_digests(PLAIN, secret, "another request"))
    assert not set(told) & set(approvals.field_digests(PLAIN, b"t" * 32, "ap"))


@pytest.mark.requirement("APR-01")
def test_where_two_are_needed_who_has_no_name_does_not_count():
    two = structs.replace(APPROVED, approvers_min=2)
    assert approvals.why_not_eligible(two, voter(name=""), Approvals()) == "approver_not_eligible"
    assert approvals.why_not_eligible(two, voter(name="ben"), Approvals()) is None
    assert approvals.why_not_eligible(APPROVED, voter(name=""), Approvals()) is None


def test_a_long_approvals_token_is_short_lived():
    long = structs.replace(APPROVED, expires_at_ns=NOW + 24 * 3600 * 10**9)
    text = token.mint(long, KEY, gateway_id="g", now_ns=NOW)
    at_end = NOW + token.LIFETIME_NS
    assert token.read(text, {KEY.kid: KEY.public}, gateway_id="g", now_ns=at_end - 10**9)
    with pytest.raises(token.TokenInvalid, match="expired"):
        token.read(text, {KEY.kid: KEY.public}, gateway_id="g", now_ns=at_end)


def test_the_roles_policy_asks_for_are_needed():
    asked = structs.replace(APPROVED, roles=("finance",))
    assert approvals.why_not_eligible(asked, voter(), Approvals()) == "approver_not_eligible"
    assert approvals.why_not_eligible(asked, voter(name="finance"), Approvals()) is None


def test_separation_can_be_configured_but_the_kind_cannot():
    loose = Approvals(distinct_from=())
    assert approvals.why_not_eligible(APPROVED, voter(name="Ann"), loose) is None
    assert approvals.why_not_eligible(APPROVED, voter(kind="agent"), loose) is not None


# What is asked


ACTION = Action(
    tenant="p", agent="agent", tool="refund", upstream="payments", class_="irreversible",
    method="POST", path="/orders/17/refunds", arguments={"order_id": "17", "amount": 500},
    cost_amount="500", cost_currency="EUR", body_digest="sha256:b", body_jcs_digest="sha256:j",
    media_type="application/json", tool_digest="d",
)  # fmt: skip
CALL = OpenedCall(
    call_id="c", project="p", principal="agent", principal_kind="agent", tool="refund",
    class_="irreversible", action_hash="sha256:a", started_at_ns=NOW, key_hash="hmac:k",
)  # fmt: skip


RULES = Approvals()


def request(decision, rules=RULES):
    return approvals.request(
        ACTION, decision, rules, CALL, approval_id="ap", requester_name="Ann", now_ns=NOW
    )


def test_the_stricter_of_policy_and_configuration_holds():
    terms = ApprovalTerms(min=2, ttl_s=60, roles=("finance",))
    decision = Decision(decision_id="d", effect="require_approval", approval=terms)
    asked = request(decision)
    assert (asked.approvers_min, asked.expires_at_ns - NOW) == (2, 60 * SECOND)
    assert asked.roles == ("finance",)
    plain = request(Decision(decision_id="d", effect="require_approval"), Approvals(approvers=3))
    assert (plain.approvers_min, plain.expires_at_ns - NOW) == (3, 600 * SECOND)


@pytest.mark.requirement("APR-01")
@pytest.mark.parametrize(
    ("terms", "decide", "execute"),
    [
        ({}, 3600, 300),
        ({"ttl_s": 60}, 60, 300),
        ({"execute_s": 30}, 3600, 30),
        ({"ttl_s": 60, "execute_s": 30}, 60, 30),
        ({"ttl_s": 7200, "execute_s": 7200}, 3600, 300),
    ],
)
def test_policy_shortens_both_times_and_lengthens_neither(terms, decide, execute):
    rules = Approvals(expires="1h", execute_within="5m")
    decision = Decision(decision_id="d", effect="require_approval", approval=ApprovalTerms(**terms))
    asked = request(decision, rules)
    assert asked.expires_at_ns == asked.decide_by_ns == NOW + decide * SECOND
    assert asked.execute_by_ns == asked.decide_by_ns + execute * SECOND
    told = approvals.for_agent(asked)
    assert (told["expires_at"], told["decide_by"]) == (approvals.instant(asked.decide_by_ns),) * 2
    assert told["execute_by"] == approvals.instant(asked.execute_by_ns)


@pytest.mark.requirement("APR-01")
def test_configuration_terms_and_obligations_all_demand_their_sign_in():
    gold, fresh = StepUp(acr=("gold",)), StepUp(max_age_s=60)
    obliged = Obligation(id="o", type="step_up", properties={"amr": ["hwk"], "max_age_s": 30})
    decision = Decision(
        decision_id="d", effect="require_approval", approval=ApprovalTerms(step_up=fresh),
        obligations=(obliged,),
    )  # fmt: skip
    asked = approvals.request(
        ACTION, decision, RULES, CALL, approval_id="ap", requester_name="Ann", now_ns=NOW,
        step_up=(gold, fresh),
    )  # fmt: skip
    assert asked.step_up == (gold, fresh, StepUp(amr=("hwk",), max_age_s=30))
    assert request(Decision(decision_id="d", effect="require_approval")).step_up == ()


def test_the_summary_is_the_actions_own_values_and_hides_nothing():
    text = approvals.summary(ACTION)
    for part in ("refund", "irreversible", "POST /orders/17/refunds", "500 EUR", 'order_id = "17"'):
        assert part in text
    sly = structs.replace(ACTION, arguments={"note": "a\u202eb\u200b\nagent: someone else"})
    shown = approvals.summary(sly)
    assert "\u202e" not in shown and "\\u{202e}" in shown and "\\u{200b}" in shown
    assert "\nagent: someone else" not in shown
    long = structs.replace(ACTION, arguments={"note": "x" * 5000})
    assert len(approvals.summary(long)) < 1000
    changed = structs.replace(ACTION, arguments={"note": "x" * 4999 + "y"})
    assert approvals.summary(long) != approvals.summary(changed)


def test_what_has_run_out_is_expired_whatever_the_store_says():
    for status in ("pending", "approved"):
        kept = structs.replace(APPROVED, status=status)
        assert approvals.current(kept, kept.expires_at_ns - 1).status == status
        assert approvals.current(kept, kept.expires_at_ns).status == "expired"
    used = structs.replace(APPROVED, status="consumed")
    assert approvals.current(used, used.expires_at_ns).status == "consumed"
