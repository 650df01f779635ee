# METADATA
# title: Which tools a principal sees
# description: Those that are registered and not denied. Seeing a tool is no right to call it.
package agenttwin.visibility

allow contains {
	"code": "tool_visible",
	"message": "a registered tool",
	"rule": "agenttwin.visibility",
} if {
	input.resource.properties.registered_class in {"read", "write", "irreversible"}
}

deny contains {
	"code": "tool_denied",
	"message": "the tool is on the list of denied tools",
	"rule": "agenttwin.visibility",
} if {
	input.resource.id in data.settings.tools.denied
}
