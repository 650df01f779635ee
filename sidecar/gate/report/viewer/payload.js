// Payloads as text, an event in full, and where two values differ.
const SHOWN_FIRST = 20000;
const PLACES = 200;

// A payload's [digest, text, characters left out]; null where an event has none.
function payload(reference) {
  if (reference === undefined) return null;
  return typeof reference === "number" ? DATA.payloads[reference] : [reference, null, 0];
}

function pretty(text, whole) {
  if (!whole) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function payloadView(label, reference) {
  const found = payload(reference);
  if (!found) return null;
  const [digest, text, cut] = found;
  if (text === null)
    return el(
      "section",
      {},
      el("h3", {}, label),
      el("p", { class: "soft mono" }, t("notKept", digest)),
    );
  const full = pretty(text, cut === 0);
  const box = el(
    "pre",
    { tabindex: "0", role: "region", "aria-label": label },
    full.slice(0, SHOWN_FIRST),
  );
  const rest =
    full.length > SHOWN_FIRST
      ? el(
          "button",
          {
            type: "button",
            onclick: (event) => {
              box.textContent = visible(full);
              event.target.remove();
              box.focus();
            },
          },
          t("more", full.length),
        )
      : null;
  return el(
    "section",
    {},
    el("h3", {}, label),
    el("p", { class: "soft mono" }, digest),
    box,
    rest,
    cut ? el("p", { class: "note" }, t("cut", cut)) : null,
  );
}

const followersOf = new Map();
function followers(tape) {
  if (!followersOf.has(tape)) {
    const found = new Map();
    tape.events.forEach((event, seq) =>
      (event.cause ?? []).forEach((one) => {
        if (!found.has(one)) found.set(one, []);
        found.get(one).push(seq);
      }),
    );
    followersOf.set(tape, found);
  }
  return followersOf.get(tape);
}

function jumps(place, seqs) {
  return el(
    "span",
    {},
    seqs.slice(0, 50).map((seq) => [
      el(
        "button",
        {
          type: "button",
          class: "link",
          "aria-label": t("jump", seq),
          onclick: () => goTo(place, seq),
        },
        "#" + seq,
      ),
      " ",
    ]),
    seqs.length > 50 ? "…" : null,
  );
}

// One event with all that is known of it; `place` is its tape's.
function eventView(place, seq) {
  const tape = DATA.tapes[place],
    event = tape?.events[seq];
  if (!event) return el("p", { class: "soft" }, t("onlySide"));
  const after = followers(tape).get(seq) ?? [];
  const message = payload(event.message);
  const cases = REPORT.cases.filter(
    (one) =>
      one.run === place && (one.seq === seq || one.evidence.includes(seq)) && one.status !== "pass",
  );
  return el(
    "div",
    {},
    cases.map((one) =>
      el("p", { class: "note" }, badge(one.status), " ", one.id, ": ", one.detail),
    ),
    facts([
      [t("status"), badge(event.status ?? "unset")],
      [t("kind"), event.kind],
      [t("seam"), event.seam],
      [t("agent"), agentName(tape.agents[event.agent ?? 0])],
      [t("site"), event.site && event.site + " · " + (event.ord ?? 0)],
      [t("error"), event.error && event.error + (message?.[1] ? ": " + message[1] : "")],
      [t("start"), event.start === undefined ? null : "+" + milliseconds(event.start)],
      [t("took"), event.took === undefined ? null : milliseconds(event.took)],
      [t("cause"), event.cause && jumps(place, event.cause)],
      [t("effects"), after.length ? jumps(place, after) : null],
      [
        t("use"),
        event.use &&
          Object.entries(event.use)
            .map(([name, value]) => name + " " + value)
            .join(", "),
      ],
      [t("attr"), event.attr && JSON.stringify(event.attr)],
    ]),
    payloadView(t("input"), event.in),
    payloadView(t("output"), event.out),
    event.chunks
      ? el(
          "section",
          {},
          el("h3", {}, t("chunks")),
          el(
            "pre",
            { tabindex: "0", role: "region", "aria-label": t("chunks") },
            event.chunks.map((one) => payload(one)[1] ?? t("notKept", payload(one)[0])).join("\n"),
          ),
          event.more_chunks ? el("p", { class: "note" }, t("moreChunks", event.more_chunks)) : null,
        )
      : null,
  );
}

// [pointer, left, right] of each place at which two values differ; undefined: not there.
function differences(left, right, pointer = "", found = []) {
  if (found.length > PLACES) return found;
  const both = (test) => test(left) && test(right);
  const isObject = (one) => typeof one === "object" && one !== null && !Array.isArray(one);
  if (both(isObject) || both(Array.isArray)) {
    const names = new Set([...Object.keys(left), ...Object.keys(right)]);
    for (const name of names) {
      const step = pointer + "/" + name.replaceAll("~", "~0").replaceAll("/", "~1");
      differences(
        Object.hasOwn(left, name) ? left[name] : undefined,
        Object.hasOwn(right, name) ? right[name] : undefined,
        step,
        found,
      );
    }
  } else if (left !== right) found.push([pointer, left, right]);
  return found;
}

function differencesView(one, other) {
  const rows = [];
  for (const side of ["in", "out"]) {
    const left = payload(one?.[side]),
      right = payload(other?.[side]);
    if (!left?.[1] || !right?.[1] || left[2] || right[2] || left[0] === right[0]) continue;
    try {
      for (const found of differences(JSON.parse(left[1]), JSON.parse(right[1])))
        rows.push([side + (found[0] || "/"), found[1], found[2]]);
    } catch {
      continue;
    }
  }
  if (!rows.length) return null;
  const shown = (value) => {
    const text = value === undefined ? t("nothing") : JSON.stringify(value);
    return text.length > 300 ? text.slice(0, 300) + "…" : text;
  };
  return el(
    "section",
    {},
    el("h3", {}, t("differs")),
    table(
      [t("pointer"), t("left"), t("right")],
      rows.slice(0, PLACES).map(([place, left, right]) => [place, shown(left), shown(right)]),
    ),
    rows.length > PLACES ? el("p", { class: "soft" }, t("moreDiffers")) : null,
  );
}
