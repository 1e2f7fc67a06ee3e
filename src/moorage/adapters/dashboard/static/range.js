// The range of time that is looked at: the latest so many seconds, or two moments. Charts and timeline show it; where a
// journal is there, all pages show a moment of it.

import { post } from "./api.js";
import { store } from "./store.js";

export const RANGES = [[900, "15 min"], [3600, "1 h"], [10800, "3 h"], [21600, "6 h"], [86400, "24 h"], [0, "All"]];
const chosen = { last: null, from: null, to: null };
const listeners = new Set();

const usual = () => ({ demo: 900, journal: 0 }[store.about.mode] ?? 3600);

/** How many of the latest seconds are shown, 0 for all; null between two fixed moments. */
export const latest = () => (chosen.from !== null ? null : chosen.last ?? usual());

/** The first and the last moment that are shown, of those that there are. */
export function bounds(span) {
  if (chosen.from !== null) return [chosen.from, chosen.to];
  const seconds = latest();
  return [seconds ? Math.max(span[0], span[1] - seconds) : span[0], span[1]];
}

/** What was zoomed into, or null. */
export const fixed = () => (chosen.from === null ? null : [chosen.from, chosen.to]);

export function follow(seconds) {
  Object.assign(chosen, { last: seconds, from: null, to: null });
  tell();
}

export function fix(from, to) {
  Object.assign(chosen, { from, to });
  tell();
}

export const unfix = () => follow(chosen.last);

export function listen(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

function tell() {
  for (const listener of [...listeners]) listener();
}

/** Show the moment of a journal on all pages. */
export const seek = (at) => post("seek", { time: at });
