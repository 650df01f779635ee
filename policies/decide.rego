# METADATA
# title: The two entry points
# description: |
#   `decide` judges one call; `list` says whether a principal may see a tool. The input is schema/input.json.
#   A rule of yours joins one of the sets below; the strictest word wins. Write your package in one file: one
#   that is spread over several is refused, since the engine would lose rules of it.
package agenttwin.v1

import data.agenttwin.approvals
import data.agenttwin.lib.combine
import data.agenttwin.spending
import data.agenttwin.tool_calls
import data.agenttwin.visibility

deny := tool_calls.deny | approvals.deny

require_approval := spending.require_approval | approvals.require_approval

allow := tool_calls.allow

decide := combine.strictest(deny, require_approval, allow, data.settings.approvals)

list := combine.strictest(visibility.deny, set(), visibility.allow, data.settings.approvals)
