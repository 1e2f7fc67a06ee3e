// One chart: lines over time that can be hovered, zoomed and read as a table. The drawing is uPlot's.

import { announce, h, name, Table } from "./dom.js";
import { moment, clock } from "./words.js";

const HEIGHT = 190;
const ROWS = 40;
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [14, 5]];
const COLOURS = 6;
let uPlot = null;

/** The library is loaded with the first chart, or at once if that is what was asked for. */
export async function prepare() {
  uPlot ??= (await import("./vendor/uPlot.esm.js")).default;
}

if (location.hash.startsWith("#/charts")) prepare();

const style = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
const number = (value, most) => value.toLocaleString("en", { maximumFractionDigits: most >= 100 ? 0 : most >= 10 ? 1 : 2 });

/** Labels of the time axis: as short as the distance between them allows; a new day says its date. */
function times(plot, splits, axis, space, step) {
  let day = "";
  return splits.map((at) => {
    const date = new Date(at * 1000);
    const today = date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    const time = date.toLocaleTimeString("en-GB", step < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
    const label = step >= 86400 ? today : day === today ? time : `${time}\n${today}`;
    day = today;
    return label;
  });
}

/**
 * `spec` is {title, lines(history) -> [{key, label, values}], unit(most) -> [divisor, word], empty, gaps?, most?, words?(value)};
 * `page` is {zoom(from, to), reset(), point(at), pick(at), moment(), pickable}.
 */
export class Chart {
  constructor(spec, page) {
    this.spec = spec;
    this.page = page;
    this.hidden = new Set();
    this.lines = [];
    this.times = [];
    this.shape = "";
    this.unit = h("small", {});
    this.legend = h("div", { class: "chart-legend" });
    this.at = h("output", { class: "chart-time" });
    this.place = h("div", { class: "chart", tabIndex: 0, role: "application", "aria-roledescription": "chart", onkeydown: (event) => this.key(event) });
    this.none = h("p", { class: "empty", hidden: true }, spec.empty);
    this.holder = h("div", {});
    this.details = h("details", { ontoggle: () => this.tabulate() }, h("summary", {}, "Values as a table"), this.holder);
    this.element = h("section", { class: "panel chart-panel" }, h("div", { class: "chart-head" }, h("h2", {}, name(spec.title), " ", this.unit), this.at), this.legend, this.place, this.none, this.details);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.place);
  }

  /** Show what there is between two moments. */
  update(history, bounds) {
    const lines = this.spec.lines(history).filter((line) => line.values.some((v) => v !== null));
    const most = Math.max(0, ...lines.map((line) => line.values.reduce((a, v) => (v > a ? v : a), 0)));
    const [divisor, word] = this.spec.unit(most, history);
    this.times = history.times;
    this.lines = lines.map((line) => ({ ...line, values: line.values.map((v) => (v === null ? null : v / divisor)) }));
    this.most = most / divisor;
    this.word = word;
    this.bounds = bounds;
    this.unit.textContent = word ? `${word}` : "";
    this.none.hidden = lines.length > 0;
    for (const part of [this.place, this.legend, this.details, this.at]) part.hidden = !lines.length;
    const shape = JSON.stringify(this.lines.map((line) => [line.key, line.label]));
    if (shape !== this.shape || !this.plot) { this.shape = shape; this.build(); } else this.refresh();
    this.place.setAttribute("aria-label", `${this.spec.title}${word ? ` in ${word}` : ""}: ${this.sentence(this.last())}. Arrow keys move through time, plus and minus zoom, Escape shows the whole range${this.page.pickable ? ", Enter shows the cluster at that moment" : ""}; the table says the same in words.`);
    this.tabulate();
  }

  data() {
    return [this.times, ...this.lines.map((line) => line.values)];
  }

  refresh() {
    this.plot.setData(this.data(), false);
    this.plot.setScale("x", { min: this.bounds[0], max: this.bounds[1] });
    this.say(this.plot.cursor.idx ?? null);
  }

  words(value) {
    return value === null || value === undefined ? "\u2013" : this.spec.words ? this.spec.words(value) : number(value, this.most);
  }

  colour(i) {
    return style(`--c${i % COLOURS}`);
  }

  build() {
    this.plot?.destroy();
    this.plot = null;
    this.legend.replaceChildren(...this.lines.map((line, i) => this.entry(line, i)));
    if (!this.lines.length || !this.place.clientWidth) return;
    const axis = { stroke: style("--ink-3"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 }, font: `11px ${style("--font")}` };
    this.plot = new uPlot({
      width: this.place.clientWidth, height: HEIGHT, legend: { show: false },
      scales: { x: { time: true, range: (u, min, max) => (max > min ? [min, max] : [min - 30, max + 30]) }, y: { range: (u, min, max) => [0, this.spec.most ?? (max > 0 ? max * 1.06 : 1)] } },
      axes: [{ ...axis, values: times, space: 74, size: 46 },
        { ...axis, values: (u, splits) => splits.map((v) => (this.spec.words ? this.spec.words(v) : number(v, splits.at(-1)))), space: 34,
          incrs: this.spec.whole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 1e6, 1e7] : undefined,
          size: (u, values) => 20 + 6.8 * Math.max(2, ...(values ?? []).map((v) => String(v ?? "").length)) }],
      series: [{}, ...this.lines.map((line, i) => ({
        label: line.label, show: !this.hidden.has(line.key), stroke: this.colour(i), width: 1.6, dash: DASHES[Math.floor(i / COLOURS) + (line.dashed ? 1 : 0)],
        fill: line.filled ? `${this.colour(i)}22` : undefined, spanGaps: Boolean(this.spec.gaps), points: { show: Boolean(this.spec.gaps) && this.times.length < 250 ? undefined : false },
        paths: this.spec.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
      }))],
      cursor: { sync: { key: "charts" }, drag: { x: true, y: false, setScale: false }, y: false, points: { size: 6 },
        bind: { dblclick: () => () => { this.page.reset(); return null; } } },
      hooks: { setCursor: [(u) => this.say(u.cursor.idx ?? null)], setSelect: [(u) => this.selected(u)], draw: [(u) => this.mark(u)] },
    }, this.data(), this.place);
    this.plot.over.addEventListener("click", () => this.clicked());
    this.plot.setScale("x", { min: this.bounds[0], max: this.bounds[1] });
    this.say(null);
  }

  /** A line at the moment that the other pages show. */
  mark(plot) {
    const at = this.page.moment();
    if (at === null || at < this.bounds[0] || at > this.bounds[1]) return;
    const x = plot.valToPos(at, "x", true);
    plot.ctx.save();
    plot.ctx.setLineDash([]);
    plot.ctx.strokeStyle = style("--accent");
    plot.ctx.lineWidth = 2 * devicePixelRatio;
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, plot.bbox.top);
    plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
    plot.ctx.stroke();
    plot.ctx.restore();
  }

  /** A line of the legend: a switch for its line, and the value under the cursor. */
  entry(line, i) {
    line.value = h("b", {});
    return h("button", { type: "button", class: "quiet", "aria-pressed": String(!this.hidden.has(line.key)), title: "Show or hide this line",
      onclick: (event) => {
        if (!this.hidden.delete(line.key)) this.hidden.add(line.key);
        event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(line.key)));
        this.plot?.setSeries(i + 1, { show: !this.hidden.has(line.key) });
      } }, h("i", { "aria-hidden": "true", class: line.dashed || i >= COLOURS ? "dashed" : "", style: { "--line-colour": `var(--c${i % COLOURS})` } }), name(line.label), " ", line.value);
  }

  /** The newest point at which something is known. */
  last() {
    let at = this.times.length - 1;
    while (at > 0 && !this.lines.some((line) => line.values[at] !== null)) at -= 1;
    return at;
  }

  say(at) {
    const place = at ?? this.last();
    this.at.textContent = this.times.length ? (at === null ? "" : moment(this.times[place])) : "";
    const entries = this.legend.querySelectorAll("b");
    this.lines.forEach((line, i) => { if (entries[i]) entries[i].textContent = this.words(this.known(line, place, at === null)); });
  }

  known(line, place, latest) {
    if (line.values[place] !== null || !latest) return line.values[place];
    return line.values.findLast((v) => v !== null);
  }

  sentence(at) {
    if (!this.lines.length) return this.spec.empty;
    return this.lines.map((line) => `${line.label} ${this.words(line.values[at])}`).join(", ");
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.dragged = Date.now();
    this.page.zoom(from, to);
  }

  clicked() {
    if (Date.now() - (this.dragged ?? 0) < 300 || this.plot.cursor.idx === null) return;
    this.page.pick(this.times[this.plot.cursor.idx]);
  }

  key(event) {
    if (!this.plot || !this.times.length) return;
    const [from, to] = this.bounds;
    const idx = this.plot.cursor.idx ?? this.last();
    const at = this.times[idx];
    const leap = event.shiftKey ? Math.max(1, Math.round(this.times.length / 20)) : 1;
    const moves = { ArrowLeft: idx - leap, ArrowRight: idx + leap, Home: 0, End: this.times.length - 1 };
    if (event.key in moves) this.move(Math.min(this.times.length - 1, Math.max(0, moves[event.key])));
    else if (event.key === "+" || event.key === "=") this.page.zoom(at - (at - from) / 2, at + (to - at) / 2);
    else if (event.key === "-") this.page.zoom(from - (to - from) / 2, to + (to - from) / 2);
    else if (event.key === "Escape") this.page.reset();
    else if (event.key === "Enter") this.page.pick(at);
    else return;
    event.preventDefault();
  }

  move(idx) {
    this.page.point(this.times[idx]);
    announce(`${clock(this.times[idx])}: ${this.sentence(idx)}`);
  }

  /** Put the cursor at a moment. */
  point(at) {
    this.plot?.setCursor({ left: this.plot.valToPos(at, "x"), top: 10 });
  }

  resize() {
    if (!this.plot && this.lines.length && this.place.clientWidth) this.build();
    else if (this.plot && this.place.clientWidth) this.plot.setSize({ width: this.place.clientWidth, height: HEIGHT });
  }

  /** The shown values as a table, if it is open: the newest first, and not more than fit on a page. */
  tabulate() {
    if (!this.details.open || !this.lines.length) return;
    const shape = this.shape + this.word;
    if (this.tableShape !== shape) {
      this.tableShape = shape;
      this.table = new Table(this.spec.title, [{ title: "Time", class: "tight", cell: (r) => moment(r.at) },
        ...this.lines.map((line, i) => ({ title: name(line.label), class: "num", cell: (r) => this.words(r.values[i]) }))], (r) => r.at);
      this.holder.replaceChildren(this.table.element);
    }
    const every = Math.max(1, Math.ceil(this.times.length / ROWS));
    const rows = this.times.map((at, i) => ({ at, values: this.lines.map((line) => line.values[i]) }))
      .filter((r, i) => (this.times.length - 1 - i) % every === 0 && r.at >= this.bounds[0] && r.at <= this.bounds[1] + 1).reverse();
    this.table.update(rows, `${this.spec.title}${this.word ? `, ${this.word}` : ""}: ${rows.length} of ${this.times.length} points, newest first`);
  }

  end() {
    this.watch.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }
}
