// The numbers behind the charts: columns over the same times. What is new is fetched and added; the rest is kept.

import { get } from "./api.js";
import { fixed, latest } from "./range.js";
import { store } from "./store.js";

const POINTS = 400;
const LEADERS = 500;
const OPEN = 2; // The newest points may still change.

/** The columns of an answer by name. */
function columnsOf(page) {
  const found = new Map([["nodes", page.nodes], ["pods", page.pods], ["binds", page.binds], ["evictions", page.evictions], ["spot", page.spot],
    ["cost", page.cost.total], ["cost on demand", page.cost.on_demand], ...Object.entries(page.waited)]);
  for (const r of page.resources) for (const what of ["capacity", "requested", "allocated"]) found.set(`${what} ${r.name}`, r[what]);
  for (const q of page.queues) for (const what of ["used", "share"]) found.set(`${what} ${q.name}`, q[what]);
  for (const w of page.waiting) found.set(`waiting ${w.name}`, w.values);
  return found;
}

const nothing = (n) => Array(n).fill(null);

export class History {
  constructor() {
    this.times = [];
    this.columns = new Map();
    this.leaders = [];
    this.span = null;
    this.currency = "";
    this.step = 0;
    this.asked = "";
  }

  /** The names of columns that begin with this word, without it. */
  names(word) {
    return [...this.columns.keys()].filter((key) => key.startsWith(`${word} `)).map((key) => key.slice(word.length + 1));
  }

  of(name) {
    return this.columns.get(name) ?? nothing(this.times.length);
  }

  async load() {
    const asked = JSON.stringify([latest(), fixed()]);
    const query = { points: POINTS };
    const zoomed = fixed();
    const seconds = latest();
    if (zoomed) Object.assign(query, { from: Math.max(0, zoomed[0]).toFixed(3), to: Math.max(0, zoomed[1]).toFixed(3) });
    else if (asked === this.asked && this.times.length > OPEN) Object.assign(query, { from: this.times.at(-1 - OPEN).toFixed(3), step: this.step });
    else if (seconds) query.from = Math.max(0, (store.about.span?.[1] ?? store.summary.now) - seconds).toFixed(3);
    const page = await get("series", query);
    if (query.step && page.step !== query.step) {
      this.asked = "";
      return this.load();
    }
    if (query.step) this.extend(page);
    else Object.assign(this, { times: page.times, columns: columnsOf(page) });
    if (seconds && this.span) this.trim(page.span?.[1] - seconds);
    const leaders = query.step ? [...this.leaders.filter((old) => !page.leaders.some((l) => l.at_s === old.at_s && l.lease === old.lease)), ...page.leaders] : page.leaders;
    Object.assign(this, { asked, step: page.step, span: page.span, currency: page.cost.currency, leaders: leaders.sort((a, b) => a.at_s - b.at_s).slice(-LEADERS) });
    return this;
  }

  /** Replace the open points by those of an answer, and add what follows. */
  extend(page) {
    const from = page.times[0] ?? Infinity;
    const kept = this.times.filter((t) => t < from - 1e-3 && t <= this.times.at(-1 - OPEN) + 1e-3).length;
    const more = columnsOf(page);
    for (const key of new Set([...this.columns.keys(), ...more.keys()])) {
      this.columns.set(key, [...this.of(key).slice(0, kept), ...(more.get(key) ?? nothing(page.times.length))]);
    }
    this.times = [...this.times.slice(0, kept), ...page.times];
  }

  trim(from) {
    const gone = this.times.filter((t) => t < from).length;
    if (!gone) return;
    this.times = this.times.slice(gone);
    for (const [key, values] of this.columns) this.columns.set(key, values.slice(gone));
  }
}
