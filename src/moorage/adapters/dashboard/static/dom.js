// Elements from plain values. Data becomes text nodes only: there is no way in for markup.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text as it can be shown to people: characters that would hide or turn others around are written out. */
export function shown(value) {
  return String(value).replace(HIDDEN, (c) => `\u27e8U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

/** An element. Properties that begin with `on` are listeners; `class`, `data-*` and `aria-*` are attributes. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name in element && !name.includes("-") && !["list", "form", "role"].includes(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(4).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(shown(c)))));
  return element;
}

/** An untrusted name: kept from reversing the text beside it. */
export const name = (text, props) => h("bdi", { dir: "ltr", ...props }, text);

export const podLink = (key) => h("a", { href: `#/pod/${encodeURIComponent(key)}` }, name(key));
export const nodeLink = (node) => (node ? h("a", { href: `#/node/${encodeURIComponent(node)}` }, name(node)) : "");

export const chip = (text, kind = "") => h("span", { class: `chip ${kind}` }, text);

export const panel = (title, ...children) => h("section", { class: "panel" }, title ? h("h2", {}, title) : null, children);

export const empty = (text) => h("p", { class: "empty" }, text);

/** A share as a bar, with a line at `mark` if there is one; the number beside it says the same. */
export function bar(share, mark = null) {
  const width = `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%`;
  return h("span", { class: mark === null ? "bar load-bar" : "bar", "aria-hidden": "true" }, h("i", { class: share >= 0.95 ? "full" : "", style: { width } }),
    mark === null ? null : h("b", { style: { left: `${Math.min(99, mark * 100).toFixed(1)}%` } }));
}

/**
 * A table whose rows can be brought up to date without losing focus: rows are known by key and replaced only when
 * what they show has changed. Columns are {title, cell(row), class?}.
 */
export class Table {
  constructor(caption, columns, keyOf) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.body = h("tbody", {});
    this.rows = new Map();
    this.caption = h("caption", {}, caption);
    const head = h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.class ?? "" }, c.title)));
    this.element = h("div", { class: "scroll" }, h("table", {}, this.caption, h("thead", {}, head), this.body));
  }

  update(rows, caption = null) {
    if (caption !== null) this.caption.textContent = shown(caption);
    const kept = new Map();
    let before = null;
    for (const row of rows) {
      const key = this.keyOf(row);
      const text = JSON.stringify(row);
      let known = this.rows.get(key);
      if (!known || known.text !== text) {
        const cells = this.columns.map((c) => h("td", { class: c.class ?? "" }, c.cell(row)));
        const element = h("tr", {}, cells);
        if (known) known.element.replaceWith(element);
        known = { text, element };
      }
      kept.set(key, known);
      const place = before ? before.nextSibling : this.body.firstChild;
      if (place !== known.element) this.body.insertBefore(known.element, place);
      before = known.element;
    }
    for (const [key, known] of this.rows) if (!kept.has(key)) known.element.remove();
    this.rows = kept;
    return this;
  }
}

/** Buttons of which one is pressed. */
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) => h("button", {
    type: "button", "aria-pressed": String(value === chosen),
    onclick: (event) => {
      for (const each of event.currentTarget.parentNode.children) each.setAttribute("aria-pressed", String(each === event.currentTarget));
      choose(value);
    },
  }, text));
  return h("div", { class: "toggle", role: "group", "aria-label": label }, buttons);
}

let announced = 0;
/** Announce to screen readers. */
export function announce(text) {
  if (Date.now() - announced < 1000) return;
  announced = Date.now();
  document.getElementById("announce").textContent = shown(text);
}
