// Elements, settings and the data. Text from outside reaches the page through visible() and text
// nodes only.
const DATA = JSON.parse(document.getElementById("data").textContent);
const REPORT = DATA.report;
// As sidecar/plain.py: controls, and signs that hide or turn the direction of writing.
const HOSTILE = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f" +
    "\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e007f}]",
  "gu",
);

// Controls and signs that turn the direction of writing are shown as escapes.
function visible(text) {
  return String(text).replace(
    HOSTILE,
    (sign) => "\\u" + sign.codePointAt(0).toString(16).padStart(4, "0"),
  );
}

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    made.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return made;
}

// What is remembered; a browser that keeps nothing for files is no fault.
const settings = {
  get(name) {
    try {
      return localStorage.getItem("agenttwin." + name);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem("agenttwin." + name, value);
    } catch {
      /* shown, and not remembered */
    }
  },
};

const state = {
  tab: "findings",
  tape: 0,
  picked: {},
  query: "",
  kind: "",
  agent: "",
  status: "",
  besidePicked: -1,
  besideAgent: "",
  changesOnly: true,
};

const STATUSES = { pass: "pass", fail: "fail", skip: "skip_", error: "error_" };
const statusWord = (status) => (STATUSES[status] ? t(STATUSES[status]) : status);
const statusClass = (status) =>
  status === "skip" ? "skip-status" : /^[a-z_]+$/.test(status) ? status : "";
const badge = (status) => el("span", { class: "badge " + statusClass(status) }, statusWord(status));
const agentName = (name) => name || t("noAgent");
const milliseconds = (value) =>
  value >= 1000 ? (value / 1000).toFixed(2) + " s" : value.toFixed(value < 10 ? 2 : 0) + " ms";
const runName = (place) => REPORT.runs[place]?.name ?? "";

function choice(label, value, options, change, id) {
  const select = el(
    "select",
    { id, onchange: (event) => change(event.target.value) },
    options.map(([one, shown]) => el("option", { value: one }, shown)),
  );
  select.value = value;
  return el("label", {}, label, select);
}

function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "dl",
    {},
    known.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}

function table(heads, rows) {
  return el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        heads.map((head) => el("th", { scope: "col" }, head)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((cells) =>
        el(
          "tr",
          {},
          cells.map((cell) => el("td", {}, cell)),
        ),
      ),
    ),
  );
}
