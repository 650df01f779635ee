"""A fidelity report as text and as Markdown: first what it comes to, then what it rests on."""

from collections.abc import Iterator

from sidecar.analyse.fidelity.behaviour import Behaviour, Distance
from sidecar.analyse.fidelity.report import Age, Report, ToolReport
from sidecar.plain import plain


def as_text(report: Report) -> str:
    """The report for a terminal."""
    return "\n".join(map(plain, _lines(report)))


def as_markdown(report: Report) -> str:
    """The report as a page."""
    return "\n".join(map(plain, _page(report)))


def _lines(report: Report) -> Iterator[str]:
    for name, digest in report.twins.items():
        yield f"twin {name}  {digest}"
    yield (
        f"{report.runs} runs, {report.calls} calls: {report.equal} of {report.results} results"
        f" equal, {_gaps(report)} gaps, {report.not_compared} not compared"
    )
    yield from _state(report)
    for one in report.findings:
        yield f"{one.level}: {one.about}: {one.says}"
    for tool in report.tools:
        exact = tool.matches.get("exact", 0)
        yield f"{tool.tool}  {exact} of {tool.results} results equal"
        yield from (f"  {one}" for one in _of_tool(tool))
    for way in report.behaviour:
        yield from _of_behaviour(way)
    yield from map(_of_age, report.age)
    yield from (f"void: {one.run}: {one.why}" for one in report.void)


def _page(report: Report) -> Iterator[str]:
    yield "# Twin fidelity"
    yield ""
    yield (
        f"{report.runs} runs, {report.calls} calls; {report.equal} of {report.results} results"
        f" equal, {_gaps(report)} gaps, {report.not_compared} not compared."
    )
    yield ""
    yield from (
        f"- **{one.level}** {_cell(one.about)}: {_cell(one.says)}" for one in report.findings
    )
    yield from (f"- {_cell(one)}" for one in _state(report))
    yield from (f"- {_cell(_of_age(one))}" for one in report.age)
    yield ""
    yield "| tool | results | equal | gaps | ended | p50 recorded / twin | KS (p) | W of ln ms |"
    yield "|---|---|---|---|---|---|---|---|"
    for tool in report.tools:
        yield _row(tool)
    drifts = [(tool.tool, one) for tool in report.tools for one in tool.drift]
    if drifts:
        yield ""
        yield "| tool | difference | results | verdict |"
        yield "|---|---|---|---|"
    for name, one in drifts:
        yield f"| {_cell(name)} | {_cell(one.place)} | {one.results} | {one.verdict} |"
    if report.behaviour:
        yield ""
        yield "| in a row | runs recorded / twin | measure | distance | A/A floor | excess | p |"
        yield "|---|---|---|---|---|---|---|"
    for way in report.behaviour:
        for measure, found in _measures(way):
            runs = f"{way.recorded_runs} / {way.twin_runs}"
            figures = f"{found.distance:.4f} | {found.floor:.4f} | {found.excess:.4f}"
            yield f"| {way.n} | {runs} | {measure} | {figures} | {found.p:.3f} |"


def _state(report: Report) -> Iterator[str]:
    verdicts = report.verdicts
    yield f"verified outcome as recorded: {verdicts.agreeing} of {verdicts.compared}"
    some = report.effects
    yield (
        f"calls with effects: {some.both + some.neither} of {some.n} went through or not, as then"
        f" (recorded only {some.recorded_only}, twin only {some.twin_only})"
    )
    after = report.reads_after_effects
    yield f"reads after effects: {after.equal} of {after.n} equal"


def _of_tool(tool: ToolReport) -> Iterator[str]:
    for one in tool.drift:
        yield f"{one.place}  in {one.results}, verdict-{one.verdict}"
    if tool.errors.recorded != tool.errors.twin:
        yield f"ended: {_classes(tool.errors.recorded)} recorded, {_classes(tool.errors.twin)} twin"
    for reason, times in tool.gaps.reasons.items():
        yield f"gap: {reason}  in {times} of {tool.gaps.calls}"
    time = tool.latency
    if time is not None:
        declared = "" if tool.latency_declared else ", of the clock's step: none is declared"
        yield (
            f"latency: p50 {time.recorded_p50_ms:.4g} ms recorded, {time.twin_p50_ms:.4g} ms twin;"
            f" p99 {time.recorded_p99_ms:.4g}, {time.twin_p99_ms:.4g}; KS {time.ks:.3f}"
            f" (p {time.p:.2g}), Wasserstein {time.wasserstein:.3f} of ln ms,"
            f" n {time.n_recorded}{declared}"
        )


def _of_behaviour(way: Behaviour) -> Iterator[str]:
    yield (
        f"calls in a row of {way.n}: {way.recorded_runs} runs recorded, {way.twin_runs} on the twin"
    )
    for measure, found in _measures(way):
        yield (
            f"  {measure} {found.distance:.4f}, A/A floor {found.floor:.4f},"
            f" excess {found.excess:.4f}, p {found.p:.3f}"
        )


def _measures(way: Behaviour) -> tuple[tuple[str, Distance], ...]:
    return (
        ("total variation", way.total_variation),
        ("Jensen-Shannon", way.jensen_shannon),
    )


def _of_age(one: Age) -> str:
    if one.days is None:
        missing = "the twin says no as_of" if not one.as_of else "no recording has a time"
        return f"age of {one.twin}, version {one.version}: not known, {missing}"
    since = f"; answers otherwise since {one.drift_since}" if one.drift_since else ""
    told = f"as of {one.as_of}, {one.days:.1f} days before the newest{since}"
    return f"age of {one.twin}, version {one.version}: {told}"


def _row(tool: ToolReport) -> str:
    time = tool.latency
    latency = "–" if time is None else f"{time.recorded_p50_ms:.4g} / {time.twin_p50_ms:.4g} ms"
    ks = "–" if time is None else f"{time.ks:.3f} ({time.p:.2g})"
    distance = "–" if time is None else f"{time.wasserstein:.3f}"
    errors = f"{_classes(tool.errors.recorded)} / {_classes(tool.errors.twin)}"
    exact, gaps = tool.matches.get("exact", 0), f"{tool.gaps.n} of {tool.gaps.calls}"
    parts = (tool.tool, tool.results, exact, gaps, errors, latency, ks, distance)
    return f"| {' | '.join(_cell(str(one)) for one in parts)} |"


def _classes(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _gaps(report: Report) -> int:
    return sum(one.gaps.n for one in report.tools)


def _cell(text: str) -> str:
    """What must not end a cell or a line of a table, and starts no markup."""
    shown = " ".join(text.split())
    for mark in ("\\", "|", "<", "`", "*", "[", "]"):
        shown = shown.replace(mark, f"\\{mark}")
    return shown
