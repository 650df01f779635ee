# METADATA
# title: Which tools may be called at all, by class
# description: |
#   Reads are allowed; writes and irreversible calls of registered tools too, where nothing stricter holds.
#   An unregistered tool, a denied one, and an irreversible call without an idempotency key are denied.
package agenttwin.tool_calls

class := input.resource.properties.registered_class

tool := input.resource.id

classes := {"read", "write", "irreversible"}

verdicts contains {
	"effect": "allow",
	"code": "read_allowed",
	"message": "a read of a registered tool",
	"rule": "agenttwin.tool_calls",
} if {
	class == "read"
}

verdicts contains {
	"effect": "allow",
	"code": "write_allowed",
	"message": "a write of a registered tool",
	"rule": "agenttwin.tool_calls",
} if {
	class == "write"
}

verdicts contains {
	"effect": "allow",
	"code": "irreversible_allowed",
	"message": "an irreversible call of a registered tool, with an idempotency key",
	"rule": "agenttwin.tool_calls",
} if {
	class == "irreversible"
	input.action.properties.idempotency.key_present == true
}

verdicts contains {
	"effect": "deny",
	"code": "idempotency_key_required",
	"message": "an irreversible call needs an idempotency key",
	"rule": "agenttwin.tool_calls",
} if {
	class == "irreversible"
	not input.action.properties.idempotency.key_present
}

verdicts contains unlisted if not registered

verdicts contains denied if tool in data.settings.tools.denied

visibility contains {
	"effect": "allow",
	"code": "tool_visible",
	"message": "a registered tool",
	"rule": "agenttwin.tool_calls",
} if {
	registered
}

visibility contains unlisted if not registered

visibility contains denied if tool in data.settings.tools.denied

registered if class in classes

unlisted := {
	"effect": "deny",
	"code": "tool_unlisted",
	"message": "the tool is not registered",
	"rule": "agenttwin.tool_calls",
}

denied := {
	"effect": "deny",
	"code": "tool_denied",
	"message": "the tool is on the list of denied tools",
	"rule": "agenttwin.tool_calls",
}
