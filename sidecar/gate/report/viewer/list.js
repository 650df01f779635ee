// A list of any length of which only what is seen is on the page; one tab stop, moved in by keys.
// Enter leads to its detail, what is chosen in full; Escape back.
const ROW = 28;
const BEYOND = 12;

class List {
  constructor({ id, label, draw, pick }) {
    this.id = id;
    this.draw = draw;
    this.pick = pick;
    this.items = [];
    this.at = -1;
    this.spacer = el("div", { class: "spacer", role: "presentation" });
    this.root = el(
      "div",
      {
        class: "list",
        id,
        role: "listbox",
        tabindex: "0",
        "aria-label": label,
        onscroll: () => this.later(),
        onkeydown: (event) => this.key(event),
        onclick: (event) => this.click(event),
      },
      this.spacer,
    );
    this.detail = el("section", {
      class: "detail",
      id: "detail",
      tabindex: "-1",
      "aria-label": t("detail"),
      onkeydown: (event) => {
        if (event.key === "Escape") this.root.focus();
      },
    });
    this.waiting = false;
    new ResizeObserver(() => this.later()).observe(this.root);
  }

  show(items, at) {
    this.items = items;
    this.at = Math.min(at, items.length - 1);
    this.spacer.style.height = items.length * ROW + "px";
    this.paint();
    if (this.at >= 0) this.reveal();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    const top = this.root.scrollTop;
    const first = Math.max(Math.floor(top / ROW) - BEYOND, 0);
    const last = Math.min(
      Math.ceil((top + (this.root.clientHeight || 600)) / ROW) + BEYOND,
      this.items.length,
    );
    const rows = [];
    for (let place = first; place < last; place++) {
      const row = this.draw(this.items[place]);
      row.id = this.id + "-" + place;
      row.setAttribute("role", "option");
      row.setAttribute("aria-setsize", this.items.length);
      row.setAttribute("aria-posinset", place + 1);
      row.setAttribute("aria-selected", place === this.at ? "true" : "false");
      row.dataset.place = place;
      row.style.top = place * ROW + "px";
      rows.push(row);
    }
    this.spacer.replaceChildren(...rows);
    if (this.at >= first && this.at < last)
      this.root.setAttribute("aria-activedescendant", this.id + "-" + this.at);
    else this.root.removeAttribute("aria-activedescendant");
  }

  go(place) {
    if (!this.items.length) return;
    this.at = Math.max(0, Math.min(place, this.items.length - 1));
    this.reveal();
    this.pick(this.items[this.at], this.at);
  }

  reveal() {
    const top = this.at * ROW,
      height = this.root.clientHeight || 600;
    if (top < this.root.scrollTop || top + ROW > this.root.scrollTop + height)
      this.root.scrollTop = Math.max(top - height / 3, 0);
    this.paint();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(Math.floor(this.root.clientHeight / ROW) - 1, 1);
    const to = {
      ArrowDown: this.at + 1,
      ArrowUp: this.at - 1,
      PageDown: this.at + page,
      PageUp: this.at - page,
      Home: 0,
      End: this.items.length - 1,
      j: this.at + 1,
      k: this.at - 1,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.go(to);
    } else if (event.key === "Enter" && this.at >= 0) {
      event.preventDefault();
      this.detail.focus();
    }
  }

  click(event) {
    const row = event.target.closest("[data-place]");
    if (row) this.go(Number(row.dataset.place));
  }
}
