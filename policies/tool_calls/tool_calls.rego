# METADATA
# title: Which tools may be called at all, by class
# description: |
#   Reads are allowed; writes and irreversible calls of registered tools too, where nothing stricter holds.
#   An unregistered tool, a denied one, and an irreversible call without an idempotency key are denied.
package agenttwin.tool_calls

class := input.resource.properties.registered_class

allow contains {
	"code": "read_allowed",
	"message": "a read of a registered tool",
	"rule": "agenttwin.tool_calls",
} if {
	class == "read"
}

allow contains {
	"code": "write_allowed",
	"message": "a write of a registered tool",
	"rule": "agenttwin.tool_calls",
} if {
	class == "write"
}

allow contains {
	"code": "irreversible_allowed",
	"message": "an irreversible call of a registered tool, with an idempotency key",
	"rule": "agenttwin.tool_calls",
} if {
	class == "irreversible"
	input.action.properties.idempotency.key_present == true
}

deny contains {
	"code": "idempotency_key_required",
	"message": "an irreversible call needs an idempotency key",
	"rule": "agenttwin.tool_calls",
} if {
	class == "irreversible"
	not input.action.properties.idempotency.key_present
}

deny contains {
	"code": "tool_unlisted",
	"message": "the tool is not registered",
	"rule": "agenttwin.tool_calls",
} if {
	not registered
}

deny contains {
	"code": "tool_denied",
	"message": "the tool is on the list of denied tools",
	"rule": "agenttwin.tool_calls",
} if {
	input.resource.id in data.settings.tools.denied
}

registered if class in {"read", "write", "irreversible"}
