# METADATA
# title: Calls that a person approves, and calls that must come after another
# description: |
#   settings.tools.always_approve lists tools; settings.tools.requires_before maps a tool to the one that
#   must have been called before it in the same trace or session, and to what happens otherwise.
package agenttwin.approvals

before := data.settings.tools.requires_before[input.resource.id]

missing if {
	names_tool(before)
	tool := before.tool
	not called(tool)
}

names_tool(entry) if is_string(entry.tool)

called(tool) if tool in input.context.session.prior_tools

asks(entry) if entry.otherwise == "require_approval"

require_approval contains {
	"code": "tool_needs_approval",
	"message": "the tool is always approved by a person",
	"rule": "agenttwin.approvals",
} if {
	input.resource.id in data.settings.tools.always_approve
}

require_approval contains {
	"code": "required_call_missing",
	"message": sprintf("%s must be called before %s", [before.tool, input.resource.id]),
	"rule": "agenttwin.approvals",
} if {
	missing
	asks(before)
}

# A misspelt consequence is the strictest one.
deny contains {
	"code": "required_call_missing",
	"message": sprintf("%s must be called before %s", [before.tool, input.resource.id]),
	"rule": "agenttwin.approvals",
} if {
	missing
	entry := before
	not asks(entry)
}

deny contains {
	"code": "settings_malformed",
	"message": sprintf("settings.tools.requires_before.%s names no tool", [input.resource.id]),
	"rule": "agenttwin.approvals",
} if {
	entry := before
	not names_tool(entry)
}
