# METADATA
# title: What may follow what, and how often
# description: |
#   An example of limits over a session: after the customer list was read nothing is sent outside, and an agent that was
#   refused often is stopped. input.context.counters is there because these rules refer to it. It is read before the
#   decision: what must hold among calls at once is limits.count and limits.rate.
package agenttwin.v1

default_reasons := [{"code": "within_limits", "rule": "agenttwin.v1"}]

denied contains {"code": "export_after_reading", "message": "customers were read in this session"} if {
	input.resource.id == "send_mail"
	input.context.counters.session.tools.list_customers > 0
}

denied contains {"code": "too_many_writes", "message": "more than 20 writes in an hour"} if {
	input.resource.properties.registered_class == "write"
	input.context.counters.hour.classes.write >= 20
}

denied contains {"code": "refused_too_often", "message": "it was refused 10 times within a minute"} if {
	input.context.counters.minute.refused >= 10
}

decide := {"effect": "deny", "reasons": [reason | some reason in denied]} if {
	count(denied) > 0
} else := {"effect": "allow", "reasons": default_reasons} if {
	input.context.counters.session.calls >= 0
	input.context.counters.hour.calls >= 0
	input.context.counters.minute.calls >= 0
}

list := {"effect": "allow", "reasons": default_reasons} if input.resource.type == "tool"
