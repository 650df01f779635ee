// Two tapes beside each other, as the diff aligned them.
let besideStep = null;

function besideRows() {
  const rows = [];
  DATA.beside.agents.forEach((one, agent) => {
    if (state.besideAgent !== "" && state.besideAgent !== String(agent)) return;
    one.rows.forEach(([left, right, kind, consequence], number) => {
      const near = one.first !== null && Math.abs(number - one.common) <= 3;
      const named = DATA.beside.kinds[kind];
      if (state.changesOnly && named === "same" && !near) return;
      rows.push({ agent, left, right, kind: named, consequence });
    });
  });
  return rows;
}

function sideText(place, seq) {
  const event = seq === null ? null : DATA.tapes[place]?.events[seq];
  return event
    ? "#" +
        seq +
        " " +
        event.kind +
        " " +
        (event.name ?? event.site ?? "") +
        (event.status ? " " + event.status : "") +
        " " +
        preview(event)
    : "";
}

function besideRow(row) {
  const shade =
    row.kind === "same" || row.kind === "insert" || row.kind === "delete" ? row.kind : "changed";
  const left = sideText(0, row.left),
    right = sideText(1, row.right),
    tail = row.consequence ? t("consequence") : "";
  const said = [
    agentName(DATA.beside.agents[row.agent].agent),
    row.kind,
    tail,
    t("left") + " " + (left || t("nothing")),
    t("right") + " " + (right || t("nothing")),
  ]
    .filter(Boolean)
    .join(", ");
  return el(
    "div",
    {
      class: "row lane" + (row.agent % 6) + " " + shade + (row.consequence ? " consequence" : ""),
      "aria-label": said.slice(0, 400),
    },
    el("span", { class: "w-name soft" }, row.kind === "same" ? "" : row.kind),
    el("span", { class: "grow" }, left),
    el("span", { class: "grow" }, right),
  );
}

function besideView() {
  const count = el("p", { role: "status", class: "soft" });
  let rows = [];
  const total = DATA.beside.agents.reduce((sum, one) => sum + one.rows.length, 0),
    out = DATA.beside.agents.reduce((sum, one) => sum + one.left_out, 0);
  const describe = (row) =>
    list.detail.replaceChildren(
      ...(!row
        ? [el("p", { class: "soft" }, t("pick"))]
        : [
            el("h2", {}, row.kind + (row.consequence ? " (" + t("consequence") + ")" : "")),
            differencesView(DATA.tapes[0]?.events[row.left], DATA.tapes[1]?.events[row.right]) ??
              el("p", { class: "soft" }, row.kind === "same" ? t("same") : ""),
            el(
              "div",
              { class: "pair" },
              [
                [0, row.left, "left"],
                [1, row.right, "right"],
              ].map(([place, seq, side]) =>
                el(
                  "section",
                  { "aria-label": t(side) },
                  el("h3", {}, t(side) + ": " + runName(place)),
                  seq === null
                    ? el("p", { class: "soft" }, t("onlySide"))
                    : [jumps(place, [seq]), eventView(place, seq)],
                ),
              ),
            ),
          ]),
    );
  const list = new List({
    id: "rows",
    label: t("rows"),
    draw: besideRow,
    pick: (row, at) => {
      state.besidePicked = at;
      describe(row);
    },
  });
  const refresh = () => {
    rows = besideRows();
    count.textContent = t("rowsShown", rows.length, total);
    if (state.besidePicked < 0) state.besidePicked = Math.max(firstChange(), 0);
    list.show(rows, Math.min(state.besidePicked, rows.length - 1));
    describe(rows[list.at]);
  };
  const step = (way) => {
    for (let at = list.at + way; at >= 0 && at < rows.length; at += way)
      if (rows[at].kind !== "same") {
        list.go(at);
        list.root.focus();
        return;
      }
  };
  besideStep = step;
  const firstChange = () => rows.findIndex((row) => row.kind !== "same" && !row.consequence);
  const toFirst = () => {
    if (firstChange() >= 0) {
      list.go(firstChange());
      list.root.focus();
    }
  };
  const changes = el(
    "button",
    {
      type: "button",
      "aria-pressed": state.changesOnly ? "true" : "false",
      onclick: (event) => {
        state.changesOnly = !state.changesOnly;
        event.target.setAttribute("aria-pressed", String(state.changesOnly));
        state.besidePicked = -1;
        refresh();
      },
    },
    t("changes"),
  );
  const view = el(
    "div",
    {},
    el(
      "div",
      { class: "bar" },
      choice(
        t("agent"),
        state.besideAgent,
        [
          ["", t("all")],
          ...DATA.beside.agents.map((one, number) => [String(number), agentName(one.agent)]),
        ],
        (value) => {
          state.besideAgent = value;
          state.besidePicked = -1;
          refresh();
        },
      ),
      changes,
      el("button", { type: "button", onclick: toFirst }, t("toFirst")),
      el("button", { type: "button", onclick: () => step(-1) }, t("previous")),
      el("button", { type: "button", onclick: () => step(1) }, t("next")),
    ),
    el(
      "p",
      { class: "soft" },
      t("left") + ": " + runName(0) + " · " + t("right") + ": " + runName(1),
    ),
    out ? el("p", { class: "note" }, t("rowsLeftOut", out)) : null,
    count,
    list.root,
    list.detail,
  );
  view.ready = refresh;
  return view;
}
