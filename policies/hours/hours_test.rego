package agenttwin.hours_test

import data.agenttwin.hours

settings := {"irreversible": {"from": 8, "to": 18, "days": ["Monday", "Tuesday"]}}

# 2027-01-04 was a Monday.
asked(class, text) := count(reasons) if {
	made := {
		"resource": {"properties": {"registered_class": class}},
		"context": {"time_ns": time.parse_rfc3339_ns(text)},
	}
	reasons := hours.require_approval with input as made with data.settings.hours as settings
}

test_within_the_hours_nobody_is_asked if {
	asked("irreversible", "2027-01-04T08:00:00Z") == 0
	asked("irreversible", "2027-01-05T17:59:59.999Z") == 0
}

test_outside_of_them_a_person_is if {
	asked("irreversible", "2027-01-04T07:59:59.999Z") == 1
	asked("irreversible", "2027-01-04T18:00:00Z") == 1
	asked("irreversible", "2027-01-06T12:00:00Z") == 1
}

test_other_classes_have_no_hours if asked("read", "2027-01-06T12:00:00Z") == 0

test_no_time_is_outside if {
	reasons := hours.require_approval with input as {"resource": {"properties": {"registered_class": "irreversible"}}}
		with data.settings.hours as settings
	count(reasons) == 1
}
