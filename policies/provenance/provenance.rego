# METADATA
# title: What a call may do after the agent has read content of others
# description: |
#   A tool's results may carry labels (gateway.tools[].returns), such as "untrusted". settings.provenance.labels maps a label
#   to what then holds for each class of tool: require_approval or deny. settings.provenance.unknown says the same for
#   calls without a session, where nobody knows what came before.
package agenttwin.provenance

class := input.resource.properties.registered_class

consequence contains {"label": label, "word": word} if {
	some label in input.context.provenance.labels
	word := data.settings.provenance.labels[label][class]
}

consequence contains {"label": "unknown", "word": word} if {
	word := data.settings.provenance.unknown[class]
	not input.context.provenance.known
}

asks(word) if word == "require_approval"

require_approval contains {
	"code": "untrusted_content",
	"message": sprintf("the agent has seen content labelled %s before, so a person approves", [each.label]),
	"rule": "agenttwin.provenance",
} if {
	some each in consequence
	asks(each.word)
}

# A misspelt consequence is the strictest one.
deny contains {
	"code": "untrusted_content",
	"message": sprintf("the agent has seen content labelled %s before", [each.label]),
	"rule": "agenttwin.provenance",
} if {
	some each in consequence
	word := each.word
	not asks(word)
}
