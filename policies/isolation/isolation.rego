# METADATA
# title: Tenants are kept apart
# description: |
#   settings.isolation.arguments names the arguments that hold a tenant: they must be the caller's own, exactly.
#   settings.isolation.tools maps a tool to the tenants it is for; others neither see nor call it.
package agenttwin.isolation

tenant := input.subject.properties.tenant

own(value) if value == tenant

for_caller(tenants) if tenant in tenants

deny contains {
	"code": "other_tenant",
	"message": sprintf("the argument %s names a tenant that is not the caller's", [name]),
	"rule": "agenttwin.isolation",
} if {
	some name in data.settings.isolation.arguments
	value := input.arguments[name]
	not own(value)
}

deny contains reason if some reason in hidden

hidden contains {
	"code": "tool_of_another_tenant",
	"message": "the tool is for other tenants",
	"rule": "agenttwin.isolation",
} if {
	tenants := data.settings.isolation.tools[input.resource.id]
	not for_caller(tenants)
}
