package agenttwin.trust_test

import data.agenttwin.trust

settings := {
	"levels": {"restricted": {"irreversible": "require_approval", "write": "deny"}, "odd": {"read": "ask"}},
	"unknown": {"irreversible": "deny"},
}

judged(class, level) := found if {
	made := {"resource": {"properties": {"registered_class": class}}, "subject": {"properties": {"trust": level}}}
	found := {
		"ask": count(trust.require_approval) > 0,
		"deny": count(trust.deny) > 0,
	} with input as made with data.settings.trust as settings
}

test_a_level_says_what_holds_for_a_class if {
	judged("irreversible", "restricted") == {"ask": true, "deny": false}
	judged("write", "restricted") == {"ask": false, "deny": true}
	judged("read", "restricted") == {"ask": false, "deny": false}
}

test_a_level_that_is_not_listed_changes_nothing if judged("irreversible", "full") == {"ask": false, "deny": false}

test_a_misspelt_consequence_denies if judged("read", "odd") == {"ask": false, "deny": true}

test_an_agent_without_a_level_is_as_strict_as_the_settings_say if {
	judged("irreversible", null) == {"ask": false, "deny": true}
	judged("read", null) == {"ask": false, "deny": false}
}
