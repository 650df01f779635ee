package agenttwin.provenance_test

import data.agenttwin.provenance

settings := {
	"labels": {"untrusted": {"irreversible": "require_approval", "write": "deny"}, "odd": {"read": "ask"}},
	"unknown": {"irreversible": "require_approval"},
}

said := {
	"ask": {each.code | some each in provenance.require_approval},
	"deny": {each.code | some each in provenance.deny},
}

nothing := {"ask": set(), "deny": set()}

judged(class, labels, known) := found if {
	made := {
		"resource": {"properties": {"registered_class": class}},
		"context": {"provenance": {"labels": labels, "known": known}},
	}
	found := said with input as made with data.settings.provenance as settings
}

test_without_labels_nothing_is_stricter if judged("irreversible", [], true) == nothing

test_labels_that_are_not_listed_change_nothing if judged("irreversible", ["internal"], true) == nothing

test_a_label_asks_for_the_classes_it_is_listed_for if {
	judged("irreversible", ["untrusted"], true) == {"ask": {"untrusted_content"}, "deny": set()}
	judged("read", ["untrusted"], true) == nothing
}

test_or_denies if judged("write", ["untrusted"], true) == {"ask": set(), "deny": {"untrusted_content"}}

test_a_misspelt_consequence_denies if judged("read", ["odd"], true).deny == {"untrusted_content"}

test_a_call_of_no_session_is_as_strict_as_the_settings_say if {
	judged("irreversible", [], false).ask == {"untrusted_content"}
	judged("read", [], false) == nothing
}
