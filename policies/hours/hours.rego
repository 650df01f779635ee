# METADATA
# title: When calls are made without asking
# description: |
#   settings.hours maps a class of tools to {"from", "to", "days"}: hours in UTC, from inclusive, to exclusive, and the
#   days' English names. Outside of them a person approves.
package agenttwin.hours

hours := data.settings.hours[input.resource.properties.registered_class]

within if {
	hour := time.clock(input.context.time_ns)[0]
	hour >= hours.from
	hour < hours.to
	time.weekday(input.context.time_ns) in hours.days
}

require_approval contains {
	"code": "outside_hours",
	"message": "it is outside the hours in which such calls are made without asking",
	"rule": "agenttwin.hours",
} if {
	hours
	not within
}
