// The page: finds out which one is asked for, keeps the frame around it up to date, and follows the cluster.

import { chartsPage } from "./charts.js";
import { h, name, shown } from "./dom.js";
import { mapPage } from "./map.js";
import { nodePage } from "./node.js";
import { podPage } from "./pod.js";
import { queuePage } from "./queue.js";
import { fixed, listen, seek, unfix } from "./range.js";
import { repackPage } from "./repack.js";
import { searchPage } from "./search.js";
import { shadowPage } from "./shadow.js";
import { sharesPage } from "./shares.js";
import { spotPage } from "./spot.js";
import { store } from "./store.js";
import { strategiesPage } from "./strategies.js";
import { timelinePage } from "./timeline.js";
import { trialPage } from "./trial.js";
import { whatifPage } from "./whatif.js";
import { cores, count, mebibytes, moment, percent } from "./words.js";

const PAGES = {
  map: ["Map", mapPage],
  queue: ["Queue", queuePage],
  charts: ["Charts", chartsPage],
  shares: ["Shares", sharesPage],
  strategies: ["Strategies", strategiesPage],
  spot: ["Spot", spotPage],
  timeline: ["Timeline", timelinePage],
  whatif: ["What if", whatifPage],
  repack: ["Repack", repackPage],
  trial: ["Trial", trialPage],
  shadow: ["Shadow", shadowPage],
};
const OTHERS = { pod: ["Pod", podPage], node: ["Node", nodePage], find: ["Search", searchPage] };
const STEADY = new Set(["charts"]); // These pages take another moment of a journal as it comes.
const $ = (id) => document.getElementById(id);

let leaving = new AbortController();

function route() {
  const [, page = "map", ...rest] = location.hash.split("/");
  const found = [PAGES, OTHERS].find((pages) => Object.hasOwn(pages, page));
  const known = found ? found[page] : PAGES.map;
  leaving.abort();
  leaving = new AbortController();
  const argument = decoded(rest.join("/"));
  document.title = `${argument ? `${shown(argument)} \u2013 ` : ""}${known[0]} \u2013 Moorage`;
  for (const link of $("nav").querySelectorAll("a")) {
    if (link.hash === `#/${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const body = h("div", { style: { display: "contents" } });
  $("main").replaceChildren(...frame(), body);
  scrollTo(0, 0);
  const { signal } = leaving;
  Promise.resolve(known[1](body, signal, argument)).catch((error) => {
    if (!signal.aborted) body.append(h("p", { class: "notice bad" }, error.message));
  });
  return body;
}

/** A part of the address as text; it is not trusted. */
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function frame() {
  return [...(store.about.notes ?? []).map((note) => h("p", { class: "notice" }, note)), time, numbers];
}

const numbers = h("dl", { class: "stats", "aria-label": "The cluster in numbers" });

function showNumbers() {
  const s = store.summary;
  const waiting = Object.values(s.queue).reduce((a, b) => a + b, 0);
  const share = ([used, most]) => (most ? percent(used / most) : "\u2013");
  const item = (title, value, note) => h("div", {}, h("dt", {}, title), h("dd", {}, value, " ", h("small", {}, note)));
  numbers.replaceChildren(
    item("Nodes", count(s.nodes), s.notices ? `${count(s.notices)} leaving` : ""),
    item("Pods on nodes", count(s.pods), ""), item("Waiting", count(waiting), s.queue.unschedulable ? `${count(s.queue.unschedulable)} unschedulable` : ""),
    item("CPU requested", share(s.cpu), `${cores(s.cpu[0])} of ${cores(s.cpu[1])}`), item("Memory requested", share(s.memory), `${mebibytes(s.memory[0])} of ${mebibytes(s.memory[1])}`));
  const badges = { queue: waiting, strategies: s.off, spot: s.notices };
  for (const [page, n] of Object.entries(badges)) $(`badge-${page}`).textContent = n ? count(n) : "";
}

const time = h("div", { style: { display: "contents" } });

/** What all pages have to do with time: the moment of a journal that they show, and the range that was zoomed into. */
function showTime() {
  const zoomed = fixed();
  const range = zoomed ? `${moment(zoomed[0])} to ${moment(zoomed[1])}` : "";
  const whole = zoomed ? h("button", { type: "button", onclick: unfix }, "Show the whole range") : null;
  if (store.about.span) time.replaceChildren(h("section", { class: "panel", "aria-label": "Journal" }, seekBar(...(zoomed ?? store.about.span)), zoomed ? h("div", { class: "row" }, h("span", {}, range), whole) : null));
  else if (zoomed) time.replaceChildren(h("section", { class: "panel", "aria-label": "Range of time" }, h("div", { class: "row" }, h("span", {}, `Charts and timeline: ${range}. The other pages show now, as there is no journal here.`), whole)));
  else time.replaceChildren();
}

/** The time line of a journal: any moment of it can be shown. */
function seekBar(first, last) {
  const now = store.summary.now;
  const label = h("output", {}, moment(now));
  const go = (at) => seek(at).catch((error) => { label.textContent = error.message; });
  const slider = h("input", { type: "range", min: Math.floor(first), max: Math.ceil(last), value: Math.round(now), step: "any", "aria-label": "Moment of the journal that is shown",
    oninput: (e) => { label.textContent = moment(Number(e.target.value)); }, onchange: (e) => go(Number(e.target.value)) });
  return h("div", { class: "seek" }, h("span", {}, "Journal at"), slider, label);
}

/** Another range: the moment of a journal that is shown is one of it. */
function rangeChanged() {
  const zoomed = fixed();
  showTime();
  if (zoomed && store.about.span && (store.summary.now < zoomed[0] || store.summary.now > zoomed[1])) seek(zoomed[1]).catch(() => {});
}

function showLink(state) {
  const link = $("link");
  link.className = `link ${state === "on" ? "on" : "off"}`;
  if (!store.loads && state !== "on" && state !== "off") $("main").replaceChildren(h("p", { class: "notice bad" }, state));
  link.textContent = state === "on" ? (store.about.mode === "journal" ? "journal" : "live") : state === "off" ? "connection lost, trying again" : state;
}

function themes() {
  const order = ["auto", "light", "dark"];
  const words = { auto: "as the system", light: "light", dark: "dark" };
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
    $("theme").setAttribute("aria-label", `Theme: ${words[theme]}`);
    $("theme").title = `Theme: ${words[theme]}`;
    document.dispatchEvent(new Event("themechange"));
  };
  const read = () => { try { return localStorage.getItem("moorage-theme") ?? "auto"; } catch { return "auto"; } };
  set(order.includes(read()) ? read() : "auto");
  $("theme").addEventListener("click", () => {
    const next = order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length];
    try { localStorage.setItem("moorage-theme", next); } catch { /* not kept, then */ }
    set(next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
}

function start() {
  $("nav").append(...Object.entries(PAGES).map(([page, [title]]) => h("li", {}, h("a", { href: `#/${page}` }, title, h("span", { class: "badge", id: `badge-${page}` })))));
  $("search").addEventListener("submit", (event) => { event.preventDefault(); if ($("q").value.trim()) location.hash = `#/find/${encodeURIComponent($("q").value.trim())}`; });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) { $("q").focus(); event.preventDefault(); }
  });
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
  themes();
  let shownPage = false;
  store.listen((change) => {
    showNumbers();
    if (change.whole) {
      $("title").replaceChildren(name(store.about.title));
      $("mode").textContent = store.about.mode + (store.about.writes ? ", writes allowed" : "");
      showTime();
      if (!shownPage || (store.about.mode === "journal" && !STEADY.has(location.hash.split("/")[1]))) { route(); shownPage = true; }
      document.documentElement.dataset.ready = "yes";
    }
  }, new AbortController().signal);
  listen(rangeChanged, new AbortController().signal);
  addEventListener("hashchange", () => { if (shownPage) { route(); $("main").focus({ preventScroll: true }); } });
  globalThis.moorage = store;
  store.follow(showLink);
}

start();
