"""A diff of two tapes as one section of HTML, to stand alone or in another page.

**Rules**
1. No reference to anything outside, no script, no event handler; styles are of its own class.
2. Every text of a tape passes ``plain`` and is escaped.
"""

from html import escape
from typing import Final

from sidecar.cli.tape_diff_view import (
    Sides,
    agent_line,
    cells,
    divergence_lines,
    headline,
    near,
    notes,
    reasons,
)
from sidecar.plain import plain
from sidecar.replay.diff.model import Diff, Row

_STYLE: Final = """<style>
.tape-diff{font:14px/1.45 system-ui,sans-serif}
.tape-diff table{border-collapse:collapse;width:100%;table-layout:fixed}
.tape-diff td,.tape-diff th{border:1px solid #8884;padding:2px 6px;text-align:left;
vertical-align:top;overflow-wrap:anywhere;font-family:ui-monospace,monospace}
.tape-diff .insert{background:#2a72}.tape-diff .delete{background:#c332}
.tape-diff .changed{background:#ca02}.tape-diff .consequence{opacity:.7}
</style>"""


def html_section(found: Diff, sides: Sides, limit: int) -> str:
    """The section; ``limit`` rows at most, what is left out is said."""
    rows = [row for one in found.agents for row in near(one)]
    said = [*reasons(found)]
    for agent in found.agents:
        said.append(agent_line(agent))
        if agent.first_divergence is not None:
            said += divergence_lines(agent.first_divergence)
    parts = [
        f'<section class="tape-diff" data-outcome="{found.outcome}">',
        _STYLE,
        f"<h2>{_text(headline(found, sides))}</h2>",
        "<ul>",
        *(f"<li>{_text(line)}</li>" for line in [*said, *notes(found)]),
        "</ul>",
    ]
    if rows:
        heads = "".join(f'<th scope="col">{_text(side.name)}</th>' for side in sides)
        parts += [f"<table><thead><tr>{heads}</tr></thead><tbody>"]
        parts += [_row(row, sides) for row in rows[:limit]]
        parts.append("</tbody></table>")
    if len(rows) > limit:
        parts.append(f"<p>{len(rows) - limit} more rows.</p>")
    return "\n".join([*parts, "</section>"])


def _row(row: Row, sides: Sides) -> str:
    shade = row.kind if row.kind in ("same", "insert", "delete") else "changed"
    tail = " consequence" if row.consequence else ""
    tds = "".join(f"<td>{_text(text)}</td>" for text in cells(row, sides))
    return f'<tr class="{shade}{tail}" title="{row.kind}">{tds}</tr>'


def _text(text: str) -> str:
    return escape(plain(text))
