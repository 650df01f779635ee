# METADATA
# title: The two entry points
# description: |
#   `decide` judges one call; `list` says whether a principal may see a tool. The input is schema/input.json, the
#   answer schema/result.json. A rule of yours joins one of the sets below; the strictest word wins. Write your package
#   in one file: one that is spread over several is refused, since the engine would lose rules of it.
package agenttwin.v1

import data.agenttwin.lib.combine

# Rules are named in full: the embedded engine evaluates the whole of a package that is reached by an import.
deny := union({
	data.agenttwin.tool_calls.deny,
	data.agenttwin.approvals.deny,
	data.agenttwin.arguments.deny,
	data.agenttwin.isolation.deny,
	data.agenttwin.provenance.deny,
	data.agenttwin.spending.deny,
	data.agenttwin.trust.deny,
})

require_approval := union({
	data.agenttwin.approvals.require_approval,
	data.agenttwin.hours.require_approval,
	data.agenttwin.provenance.require_approval,
	data.agenttwin.spending.require_approval,
	data.agenttwin.trust.require_approval,
})

decide := combine.strictest({
	"deny": deny,
	"require_approval": require_approval,
	"allow": data.agenttwin.tool_calls.allow,
	"terms": ({data.settings.approvals} | data.agenttwin.spending.terms),
	"limits": (data.agenttwin.limits.limits | data.agenttwin.spending.limits),
})

list := combine.strictest({
	"deny": (data.agenttwin.visibility.deny | data.agenttwin.isolation.hidden),
	"require_approval": set(),
	"allow": data.agenttwin.visibility.allow,
	"terms": set(),
	"limits": set(),
})
