// What was found: counts, cases, where two runs part, the tapes.
const CASES = 2000;

function caseWhy(one) {
  const weight = one.quarantined
    ? t("quarantined", one.until, one.owner)
    : one.severity === "warning"
      ? t("warning")
      : "";
  const rule = one.status === "pass" ? null : ruleText(one.rule);
  const more = facts([
    [t("drift"), one.drift.join(", ")],
    [t("evidence"), one.evidence.length && one.run !== null ? jumps(one.run, one.evidence) : ""],
    [t("signature"), one.signature],
    [
      t("attempts"),
      one.attempts
        .map(
          (attempt) => statusWord(attempt.status) + (attempt.detail ? ": " + attempt.detail : ""),
        )
        .join(" · "),
    ],
  ]);
  return el(
    "div",
    {},
    el("span", {}, one.detail),
    one.code ? " [" + one.code + "]" : null,
    weight ? el("span", { class: "badge warn" }, weight) : null,
    rule ? el("p", { class: "note rule" }, rule) : null,
    one.places.length ? table([t("pointer"), t("left"), t("right")], placeRows(one.places)) : null,
    more.childElementCount ? more : null,
    one.steps.length
      ? el(
          "details",
          {},
          el("summary", {}, t("steps")),
          el(
            "pre",
            { tabindex: "0", role: "region", "aria-label": t("steps") },
            one.steps.map((step) => (step.seq === one.seq ? "> " : "  ") + step.text).join("\n"),
          ),
        )
      : null,
  );
}

function placeRows(places) {
  const shown = (has, value) => (has ? JSON.stringify(value).slice(0, 300) : t("nothing"));
  return places.map((one) => [
    one.pointer || "/",
    shown(one.has_left, one.left),
    shown(one.has_right, one.right),
  ]);
}

function caseWhere(one) {
  if (one.seq === null) return "";
  return one.run !== null && DATA.tapes[one.run]
    ? el(
        "button",
        { type: "button", class: "link", onclick: () => goTo(one.run, one.seq) },
        t("jump", one.seq),
      )
    : "#" + one.seq;
}

function caseRows() {
  const weight = { fail: 0, error: 1, skip: 2, pass: 3 };
  return [...REPORT.cases]
    .sort((one, other) => weight[one.status] - weight[other.status])
    .slice(0, CASES);
}

function divergence(first) {
  const jump = (place, seq) =>
    seq === null ? t("nothing") : DATA.tapes[place] ? jumps(place, [seq]) : "#" + seq;
  return el(
    "section",
    {},
    el("h2", {}, t("first")),
    facts([
      [t("agent"), agentName(first.agent)],
      [t("kind"), first.kind],
      [t("drift"), first.drift.join(", ")],
      [t("left"), jump(0, first.seq_l)],
      [t("right"), jump(1, first.seq_r)],
    ]),
    first.places?.length
      ? table([t("pointer"), t("left"), t("right")], placeRows(first.places))
      : null,
    first.context.length
      ? table(
          [t("kind"), t("left"), t("right")],
          first.context.map((row) => [row.kind, row.left, row.right]),
        )
      : null,
  );
}

function runFacts(run, place) {
  const faults = DATA.tapes[place]?.faults ?? [];
  return el(
    "section",
    {},
    el("h3", {}, run.role + ": " + run.name),
    run.error ? el("p", { class: "note" }, t("unreadable", run.error)) : null,
    facts([
      [t("state"), run.state],
      [t("events"), run.events],
      [t("fidelity"), run.fidelity],
      [t("digest"), run.exact_digest],
      [t("conduct"), run.behavior_digest],
      [
        t("faults"),
        faults.map((one) => (one.seq === null ? "" : "#" + one.seq + " ") + one.detail).join("; "),
      ],
    ]),
    DATA.tapes[place]
      ? el(
          "details",
          {},
          el("summary", {}, t("header")),
          el(
            "pre",
            { tabindex: "0", role: "region", "aria-label": t("header") },
            JSON.stringify(DATA.tapes[place].header, null, 2),
          ),
        )
      : null,
  );
}

function findingsView() {
  const counts = REPORT.counts,
    named = ["evaluated", "passed", "failed", "warned", "skipped", "errored", "flaky"];
  return el(
    "div",
    {},
    facts([
      [t("outcome"), badge(REPORT.outcome)],
      [t("command"), REPORT.command],
      [t("profile"), REPORT.profile],
      [t("exit"), String(REPORT.exit_code)],
      [
        t("counts"),
        named
          .filter((name) => counts[name] || name === "evaluated")
          .map((name) => counts[name] + " " + t(name))
          .join(" · "),
      ],
      [
        t("drift"),
        Object.entries(REPORT.drifts)
          .map(([kind, times]) => kind + " ×" + times)
          .join(", "),
      ],
    ]),
    REPORT.cases.length
      ? el(
          "section",
          {},
          el("h2", {}, t("findings")),
          table(
            [t("status"), t("what"), t("of"), t("where"), t("why")],
            caseRows().map((one) => [
              badge(one.status),
              one.id,
              one.group,
              caseWhere(one),
              caseWhy(one),
            ]),
          ),
        )
      : null,
    REPORT.cases.length > CASES
      ? el("p", { class: "note" }, t("moreCases", REPORT.cases.length - CASES))
      : null,
    REPORT.first_divergence ? divergence(REPORT.first_divergence) : null,
    REPORT.notes.length
      ? el(
          "section",
          {},
          el("h2", {}, t("notes")),
          el(
            "ul",
            {},
            REPORT.notes.map((one) => el("li", {}, one)),
          ),
        )
      : null,
    REPORT.runs.length
      ? el("section", {}, el("h2", {}, t("tapes")), REPORT.runs.map(runFacts))
      : null,
    Object.keys(REPORT.facts).length
      ? el("section", {}, el("h2", {}, t("facts")), facts(Object.entries(REPORT.facts)))
      : null,
    el(
      "details",
      {},
      el("summary", {}, t("help")),
      facts([
        ["↑ ↓ ← →", t("k1")],
        ["PgUp PgDn Home End", t("k5")],
        ["Enter / Esc", t("k2")],
        ["/", t("k3")],
        ["n / p", t("k4")],
      ]),
    ),
  );
}
