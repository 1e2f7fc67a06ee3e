// The cluster map: a cell for each node, grouped by the domains of a topology, else by zone and capacity type, coloured by
// utilisation; nodes with members of a chosen gang are marked.
// Groups are canvases, so that thousands of nodes stay fluid; a table says the same in words.

import { announce, bar, choice, empty, h, name, nodeLink, panel, shown, Table } from "./dom.js";
import { store } from "./store.js";
import { CAPACITIES, cores, count, mebibytes, percent, plural, STATES } from "./words.js";

const STEPS = [0.01, 0.3, 0.55, 0.75, 0.95];
const WORDS = ["nothing", "below 30%", "30 to 55%", "55 to 75%", "75 to 95%", "95% and more"];
const GLYPHS = ["", "\u2013", "\u00d7", "!"];
const ROWS = 100;
const TILE = 150;
const GANGS = 500;

const share = (used, most) => (most > 0 ? used / most : 0);
const MEASURES = {
  largest: ["Most used", (n) => Math.max(share(n.cpu, n.cpuMost), share(n.memory, n.memoryMost), share(n.pods, n.podsMost), share(n.devices, n.devicesMost))],
  cpu: ["CPU", (n) => share(n.cpu, n.cpuMost)],
  memory: ["Memory", (n) => share(n.memory, n.memoryMost)],
  pods: ["Pods", (n) => share(n.pods, n.podsMost)],
  devices: ["Devices", (n) => share(n.devices, n.devicesMost)],
};

/** As much of a text as there is room for. */
function fitting(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let end = Math.min(text.length, 64);
  while (end > 1 && pen.measureText(`${text.slice(0, end)}\u2026`).width > room) end -= 1;
  return `${text.slice(0, end)}\u2026`;
}

/** In devices: shares of them are thousandths. */
const devicesOf = (node) => `${count(node.devices / 1000)} of ${count(node.devicesMost / 1000)}`;

const step = (value) => STEPS.filter((limit) => value >= limit).length;
const natural = new Intl.Collator("en", { numeric: true }).compare;
const remembered = { measure: "largest", view: "map", sort: "name", page: 0, filter: "", gang: "" };

const place = (node) => node.domain || node.zone;
const groupOf = (node) => [place(node), node.domain ? 0 : node.capacity].join("\n");
const marked = (node) => remembered.gang !== "" && node.gangs.includes(remembered.gang);

export function words(node) {
  return `${node.name}: ${STATES[node.state]}, CPU ${percent(share(node.cpu, node.cpuMost))}, memory ` +
    `${percent(share(node.memory, node.memoryMost))}, ${plural(node.pods, "pod")}` +
    (node.devicesMost ? `, ${devicesOf(node)} devices` : "") +
    (marked(node) ? `, members of ${remembered.gang}` : "");
}

/** One domain, or zone and capacity type, drawn into a canvas. */
class Group {
  constructor(title, tip) {
    this.title = title;
    this.tip = tip;
    this.nodes = [];
    this.index = new Map();
    this.cursor = -1;
    this.note = h("small", {});
    this.canvas = h("canvas", {
      tabIndex: 0, role: "application", "aria-roledescription": "map of nodes",
      onmousemove: (event) => this.point(event), onmouseleave: () => this.tip.hide(),
      onclick: (event) => this.open(this.at(event)), onkeydown: (event) => this.key(event),
      onfocus: () => { if (this.cursor < 0) this.cursor = 0; this.draw(); }, onblur: () => { this.cursor = -1; this.tip.hide(); this.draw(); },
    });
    this.element = h("section", { class: "group" }, h("h3", {}, name(title), this.note), this.canvas);
  }

  fill(nodes) {
    this.nodes = nodes;
    this.index = new Map(nodes.map((node, i) => [node.row, i]));
    this.label();
  }

  label() {
    const used = this.nodes.reduce((sum, n) => sum + n.cpu, 0);
    const most = this.nodes.reduce((sum, n) => sum + n.cpuMost, 0);
    this.note.textContent = `${plural(this.nodes.length, "node")}, CPU ${percent(share(used, most))}`;
    this.canvas.setAttribute("aria-label", `${this.title}: ${this.note.textContent}. Arrow keys move from node to node, Enter opens one; the table says the same in words.`);
  }

  layout(size) {
    const tile = size === TILE;
    const gap = tile ? 6 : size > 12 ? 3 : 2;
    const width = this.canvas.clientWidth || 320;
    this.tile = tile;
    this.high = tile ? 44 : size;
    this.wide = size;
    if (tile) {
      const across = Math.max(1, Math.floor((width + gap) / (TILE + gap)));
      this.wide = Math.min(190, Math.floor((width + gap) / across) - gap);
    }
    this.pitch = this.wide + gap;
    this.rise = this.high + gap;
    this.across = Math.max(1, Math.floor((width + gap) / this.pitch));
    const height = Math.max(1, Math.ceil(this.nodes.length / this.across)) * this.rise;
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.setProperty("height", `${height}px`);
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
  }

  draw(only = null) {
    if (!this.pen) return;
    if (only === null) this.pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    for (const i of only ?? this.nodes.keys()) this.cell(i);
  }

  cell(i) {
    const { pen, wide, high } = this;
    const node = this.nodes[i];
    const x = (i % this.across) * this.pitch + 1;
    const y = Math.floor(i / this.across) * this.rise + 1;
    const level = step(MEASURES[remembered.measure][1](node));
    pen.clearRect(x - 1, y - 1, this.pitch, this.rise);
    pen.fillStyle = this.tip.colours[level];
    pen.beginPath();
    pen.roundRect(x, y, wide - 2, high - 2, this.tile ? 6 : Math.min(4, wide / 4));
    pen.fill();
    if (node.state) {
      pen.strokeStyle = this.tip.bad;
      pen.lineWidth = wide > 12 ? 2 : 1.5;
      pen.stroke();
    }
    if (marked(node)) {
      pen.strokeStyle = this.tip.accent;
      pen.lineWidth = wide > 12 ? 4 : 2.5;
      pen.stroke();
    }
    pen.fillStyle = level >= 3 ? this.tip.dark : this.tip.light;
    if (this.tile) this.inscribe(node, x, y);
    else if (node.state && wide >= 9) this.glyph(GLYPHS[node.state], x + wide / 2 - 1, y + high / 2 - 0.5, Math.round(wide * 0.75));
    if (i === this.cursor) {
      pen.strokeStyle = this.tip.accent;
      pen.lineWidth = 2.5;
      pen.beginPath();
      pen.roundRect(x, y, wide - 2, high - 2, this.tile ? 6 : 2);
      pen.stroke();
    }
  }

  glyph(text, x, y, size) {
    this.pen.font = `700 ${size}px system-ui, sans-serif`;
    this.pen.textAlign = "center";
    this.pen.textBaseline = "middle";
    this.pen.fillText(text, x, y);
  }

  /** Name, load and number of pods, where there is room for words. */
  inscribe(node, x, y) {
    const { pen, wide } = this;
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    pen.font = "600 12.5px system-ui, sans-serif";
    pen.fillText(fitting(pen, shown(node.name), wide - (node.state ? 34 : 18)), x + 8, y + 17);
    pen.font = "11px system-ui, sans-serif";
    const load = `CPU ${percent(share(node.cpu, node.cpuMost))}  mem ${percent(share(node.memory, node.memoryMost))}`;
    pen.fillText(fitting(pen, load, wide - 34), x + 8, y + 33);
    pen.textAlign = "right";
    pen.fillText(String(node.pods), x + wide - 10, y + 33);
    if (node.state) this.glyph(GLYPHS[node.state], x + wide - 15, y + 13, 14);
  }

  at(event) {
    const column = Math.floor(event.offsetX / this.pitch);
    const i = Math.floor(event.offsetY / this.rise) * this.across + column;
    return column < this.across ? this.nodes[i] : undefined;
  }

  point(event) {
    const node = this.at(event);
    if (node) this.tip.show(words(node), event.clientX, event.clientY);
    else this.tip.hide();
  }

  open(node) {
    if (node) location.hash = `#/node/${encodeURIComponent(node.name)}`;
  }

  key(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across, Home: -this.cursor, End: this.nodes.length - 1 - this.cursor };
    if (event.key === "Enter" || event.key === " ") this.open(this.nodes[this.cursor]);
    else if (!(event.key in moves)) return;
    else this.move(Math.max(0, Math.min(this.nodes.length - 1, this.cursor + moves[event.key])));
    event.preventDefault();
  }

  move(to) {
    const before = this.cursor;
    this.cursor = to;
    this.draw([before, to].filter((i) => i >= 0));
    const box = this.canvas.getBoundingClientRect();
    const text = words(this.nodes[to]);
    this.tip.show(text, box.left + (to % this.across) * this.pitch, box.top + Math.floor(to / this.across) * this.rise);
    document.getElementById("announce").textContent = text;
  }
}

class Tip {
  constructor() {
    this.element = h("div", { class: "tip", hidden: true });
    this.read();
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    const colour = (key) => style.getPropertyValue(key).trim();
    this.colours = [0, 1, 2, 3, 4, 5].map((i) => colour(`--u${i}`));
    [this.bad, this.accent, this.light, this.dark] = ["--bad", "--accent", "--cell-ink", "--cell-ink-dark"].map(colour);
  }

  show(text, x, y) {
    this.element.textContent = shown(text);
    this.element.hidden = false;
    this.element.style.setProperty("left", `${Math.min(x + 14, innerWidth - 350)}px`);
    this.element.style.setProperty("top", `${y + 18}px`);
  }

  hide() { this.element.hidden = true; }
}

class MapView {
  constructor(signal) {
    this.tip = new Tip();
    this.groups = new Map();
    this.holder = h("div", { class: "groups" });
    this.element = h("div", {}, this.holder, this.tip.element);
    this.resizing = new ResizeObserver(() => this.relayout());
    this.resizing.observe(this.holder);
    signal.addEventListener("abort", () => this.resizing.disconnect());
    document.addEventListener("themechange", () => { this.tip.read(); this.redraw(); }, { signal });
  }

  build() {
    const sorted = [...store.nodes.values()].sort((a, b) => natural(place(a), place(b)) || b.capacity - a.capacity || natural(a.name, b.name));
    const byGroup = new Map();
    for (const node of sorted) {
      const key = groupOf(node);
      if (!byGroup.has(key)) byGroup.set(key, []);
      byGroup.get(key).push(node);
    }
    const found = new Map();
    for (const [key, nodes] of byGroup) {
      const zone = place(nodes[0]) || "no zone";
      const capacity = nodes[0].capacity && !nodes[0].domain ? `, ${CAPACITIES[nodes[0].capacity]}` : "";
      const group = this.groups.get(key) ?? new Group(`${zone}${capacity}`, this.tip);
      group.fill(nodes);
      found.set(key, group);
    }
    this.groups = found;
    const elements = [...found.values()].map((g) => g.element);
    if (elements.length !== this.holder.children.length || elements.some((e, i) => e !== this.holder.children[i])) this.holder.replaceChildren(...elements);
    this.relayout();
  }

  relayout() {
    const total = store.nodes.size;
    const size = total > 3000 ? 9 : total > 1000 ? 12 : total > 120 ? 20 : TILE;
    this.holder.style.setProperty("--group", total > 1000 ? "420px" : "330px");
    for (const group of this.groups.values()) { group.layout(size); group.draw(); }
  }

  redraw() { for (const group of this.groups.values()) group.draw(); }

  update({ changed, gone, whole }) {
    const held = (n) => this.groups.get(groupOf(n));
    if (whole || gone.length || changed.some((n) => held(n)?.nodes[held(n).index.get(n.row)]?.name !== n.name)) return this.build();
    const touched = new Map();
    for (const node of changed) {
      const group = held(node);
      const i = group.index.get(node.row);
      group.nodes[i] = node;
      if (!touched.has(group)) touched.set(group, []);
      touched.get(group).push(i);
    }
    for (const [group, cells] of touched) { group.label(); group.draw(cells); }
  }
}

class ListView {
  constructor() {
    const load = (used, most, text) => h("span", { class: "load" }, bar(share(used, most)), h("span", { title: text }, percent(share(used, most))));
    this.table = new Table("Nodes", [
      { title: "Node", class: "name", cell: (n) => nodeLink(n.name) },
      { title: "Zone", cell: (n) => name(n.zone || "\u2013") },
      ...([...store.nodes.values()].some((n) => n.domain) ? [{ title: "Domain", cell: (n) => name(n.domain || "\u2013") }] : []),
      { title: "Capacity", cell: (n) => (n.capacity ? CAPACITIES[n.capacity] : "\u2013") },
      { title: "State", cell: (n) => STATES[n.state] },
      { title: "CPU", cell: (n) => load(n.cpu, n.cpuMost, `${cores(n.cpu)} of ${cores(n.cpuMost)} cores`) },
      { title: "Memory", cell: (n) => load(n.memory, n.memoryMost, `${mebibytes(n.memory)} of ${mebibytes(n.memoryMost)}`) },
      { title: "Devices", cell: (n) => (n.devicesMost ? load(n.devices, n.devicesMost, devicesOf(n)) : "\u2013") },
      { title: "Pods", class: "num", cell: (n) => count(n.pods) },
    ], (n) => n.row);
    this.pager = h("div", { class: "row" });
    const filter = h("input", { type: "search", value: remembered.filter, placeholder: "Node, zone, domain, gang or state", "aria-label": "Filter nodes", oninput: (e) => { remembered.filter = e.target.value; remembered.page = 0; this.build(); } });
    const sorts = choice("Sort nodes by", [["name", "By name"], ["load", "Most used first"], ["state", "Out of service first"]], remembered.sort, (value) => { remembered.sort = value; remembered.page = 0; this.build(); });
    this.element = panel("", h("div", { class: "row" }, h("div", { class: "grow" }, filter), sorts), this.table.element, this.pager);
  }

  build() {
    const measure = MEASURES[remembered.measure][1];
    const wanted = remembered.filter.trim().toLowerCase();
    const orders = { name: () => 0, load: (a, b) => measure(b) - measure(a), state: (a, b) => b.state - a.state };
    const all = [...store.nodes.values()].filter((n) => !wanted || `${n.name} ${n.zone} ${n.domain} ${n.gangs.join(" ")} ${STATES[n.state]} ${CAPACITIES[n.capacity]}`.toLowerCase().includes(wanted))
      .sort((a, b) => orders[remembered.sort](a, b) || natural(a.zone, b.zone) || natural(a.name, b.name));
    const pages = Math.max(1, Math.ceil(all.length / ROWS));
    remembered.page = Math.min(remembered.page, pages - 1);
    const first = remembered.page * ROWS;
    this.table.update(all.slice(first, first + ROWS), `${plural(all.length, "node")}${pages > 1 ? `, ${first + 1} to ${Math.min(all.length, first + ROWS)}` : ""}`);
    const turn = (by, text) => h("button", { type: "button", disabled: remembered.page + by < 0 || remembered.page + by >= pages, onclick: () => { remembered.page += by; this.build(); } }, text);
    this.pager.replaceChildren(...(pages > 1 ? [turn(-1, "Previous"), turn(1, "Next")] : []));
  }

  update() { this.build(); }
}

/** The gang whose members are marked; nothing to choose from where there are no gangs. */
class GangChoice {
  constructor(choose) {
    this.known = "";
    this.element = h("select", { "aria-label": "Mark the members of a gang", hidden: true, onchange: (e) => { remembered.gang = e.target.value; choose(); } });
  }

  update() {
    const gangs = [...new Set([...store.nodes.values()].flatMap((n) => n.gangs))].sort(natural).slice(0, GANGS);
    if (gangs.join("\n") === this.known) return;
    this.known = gangs.join("\n");
    if (!gangs.includes(remembered.gang)) remembered.gang = "";
    const option = (value, text) => h("option", { value, selected: value === remembered.gang }, shown(text));
    this.element.replaceChildren(option("", "No gang marked"), ...gangs.map((each) => option(each, each)));
    this.element.hidden = gangs.length === 0;
  }
}

function legend() {
  const levels = WORDS.map((text, i) => h("span", {}, h("i", { class: `u${i}` }), text));
  const states = [1, 2, 3].map((i) => h("span", {}, h("i", {}, GLYPHS[i]), STATES[i]));
  return h("div", { class: "legend", role: "note", "aria-label": "Legend" }, levels, states);
}

export function mapPage(main, signal) {
  const body = h("div", {});
  let view;
  const show = (which) => {
    remembered.view = which;
    view = which === "map" ? new MapView(signal) : new ListView();
    body.replaceChildren(store.nodes.size ? view.element : empty("There are no nodes."));
    view.build();
  };
  const gangs = new GangChoice(() => { view.build(); announce(remembered.gang ? `Members of ${remembered.gang} are marked` : "No gang is marked"); });
  gangs.update();
  const measures = Object.entries(MEASURES).map(([key, [text]]) => [key, text]);
  main.replaceChildren(
    h("div", { class: "head" }, h("h1", {}, "Cluster map"), h("p", { class: "lead" }, "What pods request of what nodes offer, by the domains of a topology, else by zone and capacity type.")),
    h("div", { class: "row" },
      choice("Colour by", measures, remembered.measure, (value) => { remembered.measure = value; view.build(); announce(`Coloured by ${MEASURES[value][0]}`); }),
      gangs.element, h("div", { class: "grow" }), choice("View", [["map", "Map"], ["table", "Table"]], remembered.view, show)),
    panel("", legend(), body));
  show(remembered.view);
  let pending = null;
  const flush = () => { const news = pending; pending = null; if (!signal.aborted) { if (!store.nodes.size !== !body.querySelector(".groups, table")) show(remembered.view); else view.update(news); gangs.update(); } };
  store.listen((change) => {
    if (pending) {
      pending = { changed: [...pending.changed, ...change.changed], gone: [...pending.gone, ...change.gone], whole: pending.whole || change.whole };
    } else {
      pending = change;
      requestAnimationFrame(flush);
    }
  }, signal);
}
