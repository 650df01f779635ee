# METADATA
# title: Calls that a person approves, and calls that must come after another
# description: |
#   settings.tools.always_approve lists tools; settings.tools.requires_before maps a tool to the one that
#   must have been called before it in the same trace or session, and to what happens otherwise.
package agenttwin.approvals

tool := input.resource.id

verdicts contains {
	"effect": "require_approval",
	"code": "tool_needs_approval",
	"message": "the tool is always approved by a person",
	"rule": "agenttwin.approvals",
} if {
	tool in data.settings.tools.always_approve
}

verdicts contains {
	"effect": missing.effect,
	"code": "required_call_missing",
	"message": sprintf("%s must be called before %s", [missing.tool, tool]),
	"rule": "agenttwin.approvals",
} if {
	missing.tool
}

verdicts contains {
	"effect": "deny",
	"code": "settings_malformed",
	"message": sprintf("settings.tools.requires_before.%s names no tool", [tool]),
	"rule": "agenttwin.approvals",
} if {
	before := data.settings.tools.requires_before[tool]
	not names_tool(before)
}

names_tool(before) if is_string(before.tool)

missing := {"tool": before.tool, "effect": otherwise(before)} if {
	before := data.settings.tools.requires_before[tool]
	not called(before.tool)
}

called(name) if name in input.context.session.prior_tools

# A misspelt consequence is the strictest one.
otherwise(before) := "require_approval" if before.otherwise == "require_approval"

otherwise(before) := "deny" if not asks(before)

asks(before) if before.otherwise == "require_approval"
