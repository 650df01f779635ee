// The frame: header, tabs, language, colours, print, and keys that hold everywhere.
const PRINTED = 2000;
const THEMES = ["auto", "light", "dark"];
const VIEWS = {
  findings: findingsView,
  timeline: timelineView,
  ...(DATA.beside && DATA.tapes.length > 1 ? { beside: besideView } : {}),
};
if (!DATA.tapes.length) delete VIEWS.timeline;

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

// Everything anew, in the language and the state there is; `focus`: the id that has it afterwards.
function build(tab, focus) {
  state.tab = VIEWS[tab] ? tab : "findings";
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  const names = Object.keys(VIEWS);
  const tabs = el(
    "div",
    { role: "tablist", "aria-label": t("views") },
    names.map((name) =>
      el(
        "button",
        {
          type: "button",
          role: "tab",
          id: "tab-" + name,
          "aria-selected": name === state.tab ? "true" : "false",
          "aria-controls": "panel",
          tabindex: name === state.tab ? "0" : "-1",
          onclick: () => build(name, "tab-" + name),
        },
        t(name),
      ),
    ),
  );
  tabs.addEventListener("keydown", (event) => {
    const at = names.indexOf(state.tab),
      to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const name = names[(to + names.length) % names.length];
    build(name, "tab-" + name);
  });
  const view = VIEWS[state.tab]();
  const chosen = settings.get("theme") ?? "auto";
  const colours = choice(
    t("theme"),
    THEMES.includes(chosen) ? chosen : "auto",
    THEMES.map((name) => [name, t(name)]),
    (name) => {
      settings.set("theme", name);
      theme(name);
      build(state.tab, "theme");
    },
  );
  colours.querySelector("select").id = "theme";
  document.getElementById("app").replaceChildren(
    el("a", { class: "skip", href: "#panel" }, t("skip")),
    el(
      "header",
      {},
      el("h1", {}, badge(REPORT.outcome), " ", REPORT.title),
      el(
        "button",
        {
          type: "button",
          id: "language",
          lang: language === "zh" ? "en" : "zh-Hans",
          title: t("languageName"),
          "aria-label": t("language") + ": " + t("languageName"),
          onclick: () => {
            language = language === "zh" ? "en" : "zh";
            settings.set("language", language);
            build(state.tab, "language");
          },
        },
        t("language"),
      ),
      el("div", { class: "bar" }, colours),
    ),
    el(
      "main",
      {},
      tabs,
      el(
        "div",
        { role: "tabpanel", id: "panel", tabindex: "-1", "aria-labelledby": "tab-" + state.tab },
        view,
      ),
    ),
  );
  view.ready?.();
  if (focus) document.getElementById(focus)?.focus();
}

// Show an event in its tape's timeline, whatever was filtered.
function goTo(place, seq) {
  Object.assign(state, { tape: place, query: "", kind: "", agent: "", status: "" });
  state.picked[place] = seq;
  build("timeline", "events");
}

document.addEventListener("keydown", (event) => {
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
  )
    return;
  if (event.key === "/") {
    event.preventDefault();
    if (VIEWS.timeline) {
      if (state.tab !== "timeline") build("timeline");
      document.getElementById("search")?.focus();
    }
  } else if ((event.key === "n" || event.key === "p") && state.tab === "beside")
    besideStep(event.key === "n" ? 1 : -1);
});

// On paper stands what a list on screen would hide.
addEventListener("beforeprint", () => {
  const tape = DATA.tapes[state.tape],
    paper = el("div", { id: "paper" }, el("h1", {}, REPORT.title), findingsView());
  if (tape)
    paper.append(
      el("h2", {}, runName(state.tape)),
      el("p", {}, t("printed", Math.min(PRINTED, tape.events.length), tape.events.length)),
      table(
        ["seq", t("agent"), t("kind"), "", t("status")],
        tape.events
          .slice(0, PRINTED)
          .map((event, seq) => [
            seq,
            agentName(tape.agents[event.agent ?? 0]),
            event.kind,
            event.name ?? "",
            event.status ?? "",
          ]),
      ),
    );
  document.getElementById("paper")?.remove();
  document.body.append(paper);
});
// The lanes are drawn in the colours there were.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  build(state.tab, document.activeElement?.id),
);
addEventListener("afterprint", () => document.getElementById("paper")?.remove());

const remembered = settings.get("language");
language =
  remembered === "zh" || remembered === "en"
    ? remembered
    : (navigator.language ?? "").toLowerCase().startsWith("zh")
      ? "zh"
      : "en";
theme(settings.get("theme") ?? "auto");
const link = /^#tape=(\d{1,4})&seq=(\d{1,9})$/.exec(location.hash);
if (link && DATA.tapes[Number(link[1])]) goTo(Number(link[1]), Number(link[2]));
else
  build(
    REPORT.cases.length || REPORT.first_divergence || !VIEWS.timeline ? "findings" : "timeline",
  );
