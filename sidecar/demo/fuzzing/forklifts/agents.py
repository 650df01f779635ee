"""Two forklift drivers: one claims places as it comes to them, one always in the same order."""

from typing import Any

from sidecar.analyse.together.moves import AgentSteps, Asked


def greedy(request: dict[str, Any]) -> AgentSteps:
    """Claims first where the pallet stands, then where it goes."""
    errand = request["input"]
    pallet = yield Asked(tool="get_pallet", arguments={"pallet": errand["pallet"]})
    return (yield from _carried(errand, [pallet.value["place"], errand["to"]]))


def ordered(request: dict[str, Any]) -> AgentSteps:
    """Claims places in one order, whatever the way: no circle of waiting can form."""
    errand = request["input"]
    yield Asked(tool="get_pallet", arguments={"pallet": errand["pallet"]})
    return (yield from _carried(errand, ["aisle", "dock"]))


def _carried(errand: dict[str, Any], places: list[str]) -> AgentSteps:
    me = {"forklift": errand["forklift"]}
    for place in places:
        claimed = False
        while not claimed:
            reply = yield Asked(tool="claim_place", arguments={"place": place, **me})
            claimed = reply.status == 200
    move = {"pallet": errand["pallet"], "to": errand["to"], **me}
    moved = yield Asked(tool="move_pallet", arguments=move, key=f"move-{errand['pallet']}")
    for place in places:
        yield Asked(tool="release_place", arguments={"place": place, **me})
    if moved.status != 200:
        return f"{errand['pallet']} could not be moved."
    return f"{errand['pallet']} is at the {errand['to']}."
