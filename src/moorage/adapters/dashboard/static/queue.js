// The pending pods: active, backing off, unschedulable and gated pods, and gangs with their members.

import { get } from "./api.js";
import { announce, chip, choice, empty, h, name, nodeLink, panel, podLink, Table } from "./dom.js";
import { store, whenNew } from "./store.js";
import { count, PLACE_KINDS, PLACES, plural, span } from "./words.js";

const remembered = { place: "" };

const placeChip = (place) => chip(PLACES[place] ?? place, PLACE_KINDS[place] ?? "");

function gangCard(gang) {
  const needs = gang.needs === null ? "size not known" : `needs ${gang.needs}`;
  const table = new Table(`Members of ${gang.name}`, [
    { title: "Pod", class: "name", cell: (m) => podLink(m.pod) },
    { title: "Node", class: "name", cell: (m) => nodeLink(m.node) || placeChip(m.place) },
  ], (m) => m.pod).update(gang.members, `${plural(gang.total, "member")} seen`);
  return h("section", { class: "panel" }, h("h3", {}, name(gang.name)),
    h("p", { class: "lead" }, `${gang.standing} of ${gang.total} have a node; ${needs}.`), table.element);
}

export function queuePage(main, signal) {
  const stats = h("dl", { class: "stats" });
  const note = h("p", { class: "lead" });
  const table = new Table("Waiting pods", [
    { title: "Pod", class: "name", cell: (r) => podLink(r.pod) },
    { title: "Place", class: "tight", cell: (r) => placeChip(r.place) },
    { title: "Waits", class: "tight", cell: (r) => span(r.waited) },
    { title: "Tries", class: "num", cell: (r) => (r.attempts === null ? "\u2013" : count(r.attempts)) },
    { title: "Priority", class: "num", cell: (r) => count(r.priority) },
    { title: "Why", class: "text wide", cell: (r) => [r.nominated ? ["nominated to ", nodeLink(r.nominated), ". "] : "", r.message || "not tried yet"] },
  ], (r) => r.pod);
  const none = empty("No pending pods here.");
  const gangs = h("div", { class: "columns" });
  const gangSection = h("section", { class: "grid", hidden: true }, h("h2", {}, "Gangs that wait"), gangs);
  const places = [["", "All"], ...Object.entries(PLACES)];
  const load = async () => {
    const page = await get("queue", { place: remembered.place });
    if (signal.aborted) return;
    stats.replaceChildren(...Object.entries(PLACES).map(([place, text]) => h("div", {}, h("dt", {}, text), h("dd", {}, count(page.counts[place] ?? 0)))));
    note.textContent = page.exact ? "The scheduler's own queue, the most important pods first."
      : "As the pods themselves say. Which pods back off is known to the scheduler only; here they count as unschedulable.";
    const all = Object.entries(page.counts).reduce((sum, [place, n]) => sum + (remembered.place && place !== remembered.place ? 0 : n), 0);
    table.update(page.rows.map((r) => ({ ...r, waited: Math.max(0, Math.round(store.summary.now - r.since)) })), all > page.rows.length ? `${count(page.rows.length)} of ${plural(all, "waiting pod")}` : plural(all, "waiting pod"));
    table.element.hidden = !page.rows.length;
    none.hidden = page.rows.length > 0;
    gangs.replaceChildren(...page.gangs.map(gangCard));
    gangSection.hidden = !page.gangs.length;
  };
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Queue"), note), stats,
    h("div", { class: "row" }, choice("Show", places, remembered.place, (value) => { remembered.place = value; announce(`Showing ${PLACES[value] ?? "all"}`); load(); })),
    panel("", table.element, none), gangSection);
  return whenNew("queue", signal, 700, load);
}
