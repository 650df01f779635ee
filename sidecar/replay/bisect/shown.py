"""A bisection as text and as Markdown, from what is told in JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.plain import plain, plain_markdown

_SUSPECTS = 20
_MARKS = {"good": "good", "bad": "bad", "skip": "cannot be tested"}


def text(value: Mapping[str, Any]) -> str:
    """The result as text: the answer first, then how it was found."""
    lines = _answer(value)
    if value["skipped"]:
        lines.append(f"  cannot be tested: {_some(value['skipped'])}")
    if value["contradictions"]:
        said = f"  not monotone: {_some(value['contradictions'])} should be otherwise; "
        lines.append(said + "there may be another culprit")
    if value["rate"]:
        lines.append(f"  {_rate(value['rate'])}")
    if len(value["posterior"]) > 1:
        lines += [f"  {one['probability']:>6.1%}  {name(one)}" for one in value["posterior"]]
    if value["first_divergence"]:
        lines.append(f"  first divergence: {_divergence(value['first_divergence'])}")
    resumed = f", {value['resumed']} of them by an earlier start" if value["resumed"] else ""
    lines.append(f"  {value['runs']} runs for {value['points']} suspects{resumed}")
    if value["dirty"]:
        lines.append("  the work tree has changes of no commit; they were not looked at")
    if value["repro"]:
        lines.append(f"  again: {plain(value['repro'])}")
    return "\n".join(lines)


def markdown(value: Mapping[str, Any]) -> str:
    """The result as a section of Markdown."""
    lines = [
        "## Bisection",
        "",
        *(plain_markdown(line.strip()) + "  " for line in _answer(value)),
        "",
    ]
    if value["first_divergence"]:
        lines += [f"First divergence: {plain_markdown(_divergence(value['first_divergence']))}", ""]
    if value["rate"]:
        lines += [plain_markdown(_rate(value["rate"])), ""]
    for key, head in (("skipped", "Cannot be tested"), ("contradictions", "Not monotone")):
        if value[key]:
            lines += [f"{head}: {plain_markdown(_some(value[key]))}", ""]
    lines += ["| point | | why | of |", "|---|---|---|---|"]
    for one in value["probes"]:
        cells = (name(one), _MARKS[one["verdict"]], one["detail"], one["purpose"])
        lines.append("| " + " | ".join(plain_markdown(cell) for cell in cells) + " |")
    if value["repro"]:
        lines += ["", "Again:", "", *_fenced(value["repro"])]
    return "\n".join(lines)


def name(one: Mapping[str, Any]) -> str:
    """A point in a few words."""
    parts = []
    if "commit" in one:
        subject = plain(one.get("subject", ""))[:72]
        parts.append(f"{one['commit'][:12]} {subject}".rstrip())
    parts += [f"{axis}={plain(said)}" for axis, said in one.get("revision", {}).items()]
    return "  ".join(parts)


def _answer(value: Mapping[str, Any]) -> list[str]:
    if value["culprit"] is not None:
        lines = [f"found: {name(value['culprit'])}"]
        return lines + [f"  last good: {name(one)}" for one in value["last_good"]]
    lines = [f"inconclusive: {value['why']}"]
    if value["suspects"]:
        suspects = value["suspects"]
        lines.append(f"  one of these {len(suspects)}:")
        lines += [f"    {name(one)}" for one in suspects[:_SUSPECTS]]
        if len(suspects) > _SUSPECTS:
            lines.append(f"    … and {len(suspects) - _SUSPECTS} more")
    return lines


def _rate(rate: Mapping[str, Any]) -> str:
    return (
        f"reproduction rate {rate['bad']} of {rate['runs']} "
        f"(95 %: {rate['low']:.2f} to {rate['high']:.2f}), {rate['repeats']} runs a point"
    )


def _divergence(found: Mapping[str, Any]) -> str:
    drift = f" ({', '.join(found['drift'])})" if found["drift"] else ""
    places = f" in {', '.join(found['places'])}" if found["places"] else ""
    return plain(f"{found['kind']}{drift} at seq {found['seq']}{places}")


def _some(points: Sequence[Mapping[str, Any]]) -> str:
    more = f" and {len(points) - 5} more" if len(points) > 5 else ""
    return ", ".join(name(one) for one in points[:5]) + more


def _fenced(text_: str) -> list[str]:
    fence = "```"
    while fence in text_:
        fence += "`"
    return [fence, plain(text_), fence]
