// The events of one tape: lanes by agent, filters, the list, and the event that is chosen.
const LANES = 40;
const AGENTS = 500;

function preview(event) {
  const found = payload(event.in) ?? payload(event.out);
  return found?.[1]?.slice(0, 200) ?? "";
}

function matches(tape, event, seq, query) {
  if (!query) return true;
  if (query.startsWith("#")) return String(seq) === query.slice(1);
  const inside = (text) => text && text.toLowerCase().includes(query);
  return (
    inside(event.name) ||
    inside(event.kind) ||
    inside(tape.agents[event.agent ?? 0]) ||
    inside(event.error) ||
    inside(payload(event.in)?.[1]) ||
    inside(payload(event.out)?.[1]) ||
    (event.chunks ?? []).some((one) => inside(payload(one)[1]))
  );
}

function filtered(tape) {
  const query = state.query.trim().toLowerCase(),
    found = [];
  tape.events.forEach((event, seq) => {
    if (state.kind && event.kind !== state.kind) return;
    if (state.agent !== "" && String(event.agent ?? 0) !== state.agent) return;
    if (state.status && (event.status ?? "unset") !== state.status) return;
    if (matches(tape, event, seq, query)) found.push(seq);
  });
  return found;
}

function offending(place) {
  const found = new Map();
  for (const one of REPORT.cases)
    if (one.run === place && one.seq !== null && one.status !== "pass")
      found.set(one.seq, one.status);
  return found;
}

function eventRow(tape, seq, marks) {
  const event = tape.events[seq],
    agent = event.agent ?? 0,
    status = event.status ?? "unset",
    mark = marks.get(seq);
  const said = [
    "#" + seq,
    agentName(tape.agents[agent]),
    event.kind,
    event.name,
    status,
    mark && statusWord(mark),
  ]
    .filter(Boolean)
    .join(", ");
  return el(
    "div",
    { class: "row lane" + (agent % 6), "aria-label": said },
    el("span", { class: "w-seq soft" }, seq),
    el("span", { class: "w-agent soft" }, agentName(tape.agents[agent])),
    el("span", { class: "w-kind" }, event.kind),
    el("span", { class: "w-name" }, event.name ?? event.site ?? ""),
    el("span", { class: "grow soft" }, preview(event)),
    mark ? badge(mark) : null,
    el("span", { class: "w-status " + statusClass(status) }, status === "unset" ? "" : status),
    el("span", { class: "w-took soft" }, event.took === undefined ? "" : milliseconds(event.took)),
  );
}

function lanes(tape, marks, refresh) {
  const box = el("div", { class: "lanes", role: "group", "aria-label": t("lanes") });
  tape.agents.slice(0, LANES).forEach((name, agent) => {
    const canvas = el("canvas", { "aria-hidden": "true", height: "20" });
    canvas.addEventListener("click", (event) => {
      const seq = Math.floor((event.offsetX / canvas.clientWidth) * tape.events.length);
      goTo(state.tape, Math.min(Math.max(seq, 0), tape.events.length - 1));
    });
    box.append(
      el(
        "button",
        {
          type: "button",
          class: "lane" + (agent % 6),
          "data-agent": agent,
          onclick: () => {
            state.agent = state.agent === String(agent) ? "" : String(agent);
            refresh();
          },
        },
        agentName(name),
      ),
      canvas,
    );
    requestAnimationFrame(() => drawLane(canvas, tape, agent, marks));
  });
  return box;
}

function drawLane(canvas, tape, agent, marks) {
  const width = canvas.clientWidth || 600,
    pen = canvas.getContext("2d"),
    colours = getComputedStyle(document.documentElement);
  canvas.width = width;
  const usual = colours.getPropertyValue("--lane" + (agent % 6)),
    bad = colours.getPropertyValue("--bad"),
    each = width / Math.max(tape.events.length, 1);
  tape.events.forEach((event, seq) => {
    if ((event.agent ?? 0) !== agent) return;
    const wrong = marks.has(seq) || event.status === "error" || event.status === "denied";
    pen.fillStyle = wrong ? bad : usual;
    pen.fillRect(
      seq * each,
      wrong ? 0 : event.kind === "llm_call" ? 3 : 7,
      Math.max(each - 1, 1),
      wrong ? 20 : event.kind === "llm_call" ? 14 : 6,
    );
  });
}

function timelineView() {
  const place = state.tape,
    tape = DATA.tapes[place];
  const chooser =
    REPORT.runs.length > 1
      ? choice(
          t("tape"),
          String(place),
          REPORT.runs.map((run, number) => [String(number), run.role + ": " + run.name]),
          (value) => {
            state.tape = Number(value);
            state.agent = "";
            build("timeline", "tape");
          },
          "tape",
        )
      : null;
  if (!tape)
    return el(
      "div",
      {},
      el("div", { class: "bar" }, chooser),
      el(
        "p",
        {},
        REPORT.runs[place]?.error ? t("unreadable", REPORT.runs[place].error) : t("none"),
      ),
    );
  const marks = offending(place),
    count = el("p", { role: "status", class: "soft" });
  const list = new List({
    id: "events",
    label: t("list"),
    draw: (seq) => eventRow(tape, seq, marks),
    pick: (seq) => {
      state.picked[place] = seq;
      describe(seq);
    },
  });
  const describe = (seq) =>
    list.detail.replaceChildren(
      ...(seq === undefined || !tape.events[seq]
        ? [el("p", { class: "soft" }, t("pick"))]
        : [
            el("h2", {}, "#" + seq + " " + (tape.events[seq].name ?? tape.events[seq].kind)),
            eventView(place, seq),
          ]),
    );
  const refresh = () => {
    const found = filtered(tape);
    for (const button of bands.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.dataset.agent === state.agent));
    agents.querySelector("select").value = state.agent;
    count.textContent = t("shown", found.length, tape.events.length);
    list.show(found, found.indexOf(state.picked[place]));
    describe(state.picked[place]);
  };
  const bands = lanes(tape, marks, refresh);
  const agents = choice(
    t("agent"),
    state.agent,
    [
      ["", t("all")],
      ...tape.agents.slice(0, AGENTS).map((name, agent) => [String(agent), agentName(name)]),
    ],
    (value) => {
      state.agent = value;
      refresh();
    },
  );
  let soon = 0;
  const search = el("input", {
    type: "search",
    id: "search",
    placeholder: t("searchHint"),
    value: state.query,
    oninput: (event) => {
      state.query = event.target.value;
      clearTimeout(soon);
      soon = setTimeout(refresh, 120);
    },
    onkeydown: (event) => {
      if (event.key === "Enter" || event.key === "ArrowDown") {
        event.preventDefault();
        clearTimeout(soon);
        refresh();
        list.root.focus();
        if (list.at < 0) list.go(0);
      }
    },
  });
  const kinds = [...new Set(tape.events.map((event) => event.kind))].sort(),
    statuses = [...new Set(tape.events.map((event) => event.status ?? "unset"))].sort();
  const bar = el(
    "div",
    { class: "bar", role: "search" },
    chooser,
    el("label", {}, t("search"), search),
    agents,
    choice(
      t("kind"),
      state.kind,
      [["", t("all")], ...kinds.map((kind) => [kind, kind])],
      (value) => {
        state.kind = value;
        refresh();
      },
    ),
    choice(
      t("status"),
      state.status,
      [["", t("all")], ...statuses.map((one) => [one, one])],
      (value) => {
        state.status = value;
        refresh();
      },
    ),
    el(
      "button",
      {
        type: "button",
        id: "clear",
        onclick: () => {
          Object.assign(state, { query: "", kind: "", agent: "", status: "" });
          build("timeline", "clear");
        },
      },
      t("clear"),
    ),
  );
  const view = el(
    "div",
    {},
    bar,
    bands,
    tape.left_out ? el("p", { class: "note" }, t("leftOut", tape.left_out)) : null,
    count,
    el("div", { class: "split" }, list.root, list.detail),
  );
  view.ready = refresh;
  return view;
}
