package agenttwin.v1_test

import data.agenttwin.v1

call := {
	"subject": {"type": "agent", "id": "key:1", "properties": {"tenant": "default"}},
	"action": {"name": "http.post", "properties": {
		"class": "irreversible",
		"amount": "12.50",
		"currency": "EUR",
		"idempotency": {"key_present": true, "attempt": 1},
	}},
	"resource": {
		"type": "tool",
		"id": "issue_refund",
		"properties": {"registered_class": "irreversible"},
	},
	"context": {"session": {"prior_tools": []}},
}

dear := object.union(call, {"action": {"properties": {"amount": "250.00"}}})

keyless := object.union(dear, {"action": {"properties": {"idempotency": {"key_present": false}}}})

test_a_small_refund_is_allowed_with_a_reason if {
	answer := v1.decide with input as call
	answer.effect == "allow"
	answer.reasons[0].code == "irreversible_allowed"
}

test_a_dear_refund_waits_for_approval if {
	answer := v1.decide with input as dear
	answer.effect == "require_approval"
	answer.approval == {"min": 1, "ttl_s": 600}
}

test_a_dear_refund_without_a_key_is_denied if {
	answer := v1.decide with input as keyless
	answer.effect == "deny"
}

test_nothing_known_is_denied if {
	answer := v1.decide with input as {}
	answer.effect == "deny"
}

test_the_tool_is_listed if {
	answer := v1.list with input as call
	answer.effect == "allow"
}

test_what_untrusted_content_precedes_waits_for_approval if {
	tainted := object.union(call, {"context": {"provenance": {"labels": ["untrusted"], "known": true}}})
	answer := v1.decide with input as tainted
	answer.effect == "require_approval"
	{reason.code | some reason in answer.reasons} == {"untrusted_content"}
}

test_limits_of_a_class_make_an_allow_one_with_limits if {
	answer := v1.decide with input as call
		with data.settings.limits.classes as {"irreversible": {"timeout_ms": 5000}}
	answer.effect == "allow_with_limits"
	answer.limits == {"timeout_ms": 5000}
}

test_a_tool_of_another_tenant_is_neither_listed_nor_called if {
	listed := v1.list with input as call with data.settings.isolation.tools as {"issue_refund": ["other"]}
	called := v1.decide with input as call with data.settings.isolation.tools as {"issue_refund": ["other"]}
	[listed.effect, called.effect] == ["deny", "deny"]
}
