"""What makes a call with a known key the same call: the action without what changes at every try.

**Rules**
1. Without ``idempotency.volatile`` it is the action's hash. With it, the hash of the action without
   the members those JSON pointers name, in a JSON body and, for pointers of one name, in the query
   or a form.
2. Only equality under a key is decided by it. Policy, approval, receipt and wire have the whole.
"""

from typing import Any

import msgspec

from sidecar.canonical import digest
from sidecar.gateway.action import Prepared, action_hash
from sidecar.gateway.pointer import parts, without


def fingerprint(prepared: Prepared) -> str:
    """``sha256:<hex>`` of what must be the same under one key."""
    pointers = tuple(map(parts, prepared.tool.config.idempotency.volatile))
    if not pointers:
        return prepared.action_hash
    names = {each[0] for each in pointers if len(each) == 1}
    action = prepared.action
    changes: dict[str, Any] = {
        "arguments": without(action.arguments, pointers),
        "query": tuple(pair for pair in action.query if pair[0] not in names),
    }
    if prepared.form is not None:
        pairs = [[name, value] for name, value in prepared.form if name not in names]
        changes["body_jcs_digest"] = digest({"form": pairs}, domain="agwf/1")
    elif action.body_jcs_digest is not None:
        kept = without(prepared.value, pointers)
        changes["body_jcs_digest"] = digest({"body": kept}, domain="agwf/1")
    return action_hash(msgspec.structs.replace(action, **changes))
