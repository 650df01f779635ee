"""``projects[].content``: what is refused, and what redaction is told."""

import pytest

from processors.redact.terms import KINDS
from sidecar.config import load
from sidecar.errors import SidecarError
from sidecar.pipeline.content import Content, Detectors


def loaded(tmp_path, text):
    (tmp_path / "sidecar.yaml").write_text(text)
    return load(str(tmp_path / "sidecar.yaml"), environ={}).config


@pytest.mark.requirement("RED-01")
def test_the_action_of_each_kind_and_rules_for_keys_come_from_the_file(tmp_path):
    config = loaded(
        tmp_path,
        "projects:\n- name: shop\n  content:\n    capture: redacted\n"
        "    detectors: {email: tokenise, card: hash, phone: drop}\n"
        "    attributes: {allow: [acme.order.*], deny: [acme.order.note]}\n",
    )
    terms = config.project("shop").content.terms
    assert (terms.capture, terms.keyed) == ("redacted", True)
    assert (terms.actions["email"], terms.actions["card"], terms.actions["phone"]) == (
        *("tokenise", "hash", "drop"),
    )
    assert terms.actions["jwt"] == "mask"
    assert (terms.allow, terms.deny) == (("acme.order.*",), ("acme.order.note",))
    assert config.project("other").content.terms == Content().terms


def test_every_kind_of_datum_can_be_configured():
    assert set(Detectors.__struct_fields__) == set(KINDS)


@pytest.mark.requirement("RED-01")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{detectors: {emails: drop}}", "projects.0.content.detectors.emails is unknown"),
        ("{detectors: {email: blur}}", "must be one of drop, hash, mask, tokenise"),
        ("{redact: true}", "projects.0.content.redact is unknown"),
        ("{capture: full, detectors: {email: drop}}", "content.detectors has no effect"),
        ("{capture: full, attributes: {deny: [a]}}", "content.attributes has no effect"),
        ('{attributes: {allow: ["*"]}}', "content.attributes.allow.0 must be"),
        ('{attributes: {deny: ["a*b"]}}', "content.attributes.deny.0 must be"),
    ],
)
def test_what_would_protect_nothing_is_refused_with_its_place(tmp_path, content, told):
    with pytest.raises(SidecarError) as refused:
        loaded(tmp_path, f"projects:\n- name: p\n  content: {content}\n")
    assert told in str(refused.value)
