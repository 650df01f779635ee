# METADATA
# title: Everything a registered tool can do is allowed
# description: An example of the smallest bundle, to see what the default one prevents. Not for production.
package agenttwin.v1

decide := {"effect": "allow", "reasons": [{
	"code": "allow_all",
	"message": "this bundle allows every call",
	"rule": "agenttwin.v1",
}]} if {
	input.resource.type == "tool"
}

list := {"effect": "allow", "reasons": [{"code": "allow_all"}]} if input.resource.type == "tool"
