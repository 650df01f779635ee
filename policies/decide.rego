# METADATA
# title: The two entry points
# description: |
#   `decide` judges one call; `list` says whether a principal may see a tool. The input is
#   schema/input.json, the answer docs/specs/policy.md.
package agenttwin.v1

import data.agenttwin.approvals
import data.agenttwin.lib.combine
import data.agenttwin.spending
import data.agenttwin.tool_calls

verdicts := (tool_calls.verdicts | spending.verdicts) | approvals.verdicts

decide := combine.strictest(verdicts, data.settings.approvals)

list := combine.strictest(tool_calls.visibility, data.settings.approvals)
