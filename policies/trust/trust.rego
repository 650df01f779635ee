# METADATA
# title: How far an agent is trusted
# description: |
#   policy.subjects gives an agent a word of trust, such as restricted, which is never the agent's own. settings.trust.levels
#   maps it to what then holds for each class of tool: require_approval or deny. settings.trust.unknown says the same for
#   agents without such a word.
package agenttwin.trust

class := input.resource.properties.registered_class

level := input.subject.properties.trust

known if is_string(level)

consequence contains word if word := data.settings.trust.levels[level][class]

consequence contains word if {
	word := data.settings.trust.unknown[class]
	not known
}

asks(word) if word == "require_approval"

require_approval contains {
	"code": "agent_not_trusted",
	"message": "a person approves what this agent does with such tools",
	"rule": "agenttwin.trust",
} if {
	some word in consequence
	asks(word)
}

# A misspelt consequence is the strictest one.
deny contains {
	"code": "agent_not_trusted",
	"message": "this agent is not trusted with such tools",
	"rule": "agenttwin.trust",
} if {
	some word in consequence
	not asks(word)
}
