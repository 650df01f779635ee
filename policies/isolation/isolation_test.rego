package agenttwin.isolation_test

import data.agenttwin.isolation

settings := {"arguments": ["tenant_id"], "tools": {"export_all": ["ops"]}}

call(tool, arguments) := {
	"subject": {"properties": {"tenant": "shop"}},
	"resource": {"id": tool},
	"arguments": arguments,
}

denied(made) := codes if {
	reasons := isolation.deny with input as made with data.settings.isolation as settings
	codes := {reason.code | some reason in reasons}
}

test_the_callers_own_tenant_may_be_named if denied(call("get", {"tenant_id": "shop"})) == set()

test_no_tenant_need_be_named if denied(call("get", {"id": "1"})) == set()

test_another_tenant_is_denied if {
	every value in ["bank", "Shop", "shop ", "", null, 1, ["shop"], {"a": "shop"}] {
		denied(call("get", {"tenant_id": value})) == {"other_tenant"}
	}
}

test_a_caller_without_a_tenant_owns_none if {
	denied({"resource": {"id": "get"}, "arguments": {"tenant_id": "shop"}}) == {"other_tenant"}
}

test_a_tool_of_others_is_denied_and_hidden if {
	denied(call("export_all", {})) == {"tool_of_another_tenant"}
	hidden := isolation.hidden with input as {"resource": {"id": "export_all"}}
		with data.settings.isolation as settings
	count(hidden) == 1
}

test_a_tool_of_the_callers_tenant_is_not if {
	own := object.union(call("export_all", {}), {"subject": {"properties": {"tenant": "ops"}}})
	denied(own) == set()
}
