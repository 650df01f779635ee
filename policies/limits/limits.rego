# METADATA
# title: Limits the gateway keeps on calls that are allowed
# description: |
#   settings.limits.classes and settings.limits.tools say, for a class or a tool, how often it may be called
#   (rate: [{n, window_s, key}], count in a session), what its arguments may be (arguments: [{name, one_of, min,
#   max}]), how long it may take (timeout_ms) and how much it may answer (max_response_bytes). All that match hold.
package agenttwin.limits

limits contains found if found := data.settings.limits.classes[input.resource.properties.registered_class]

limits contains found if found := data.settings.limits.tools[input.resource.id]
