// Spot capacity: nodes that are about to go away, pods that fell back from them, and what is saved.

import { get } from "./api.js";
import { empty, h, name, nodeLink, panel, podLink, Table } from "./dom.js";
import { store, whenNew } from "./store.js";
import { clock, count, money, plural, span } from "./words.js";

function costStats(cost) {
  if (!cost) return empty("No prices are known: give the profile's CostAware a price list, and savings are shown here.");
  const item = (title, value, note = "") => h("div", {}, h("dt", {}, title), h("dd", {}, value, " ", h("small", {}, note)));
  const share = cost.spot_on_demand > 0 ? `${Math.round((100 * cost.saved) / cost.spot_on_demand)}% less` : "";
  return h("div", { class: "panel", style: { border: "0", padding: "0" } },
    h("dl", { class: "stats" }, item("Nodes in use, an hour", money(cost.total, cost.currency), plural(cost.nodes, "node")),
      item("Spot nodes, an hour", money(cost.spot, cost.currency)), item("The same on demand", money(cost.spot_on_demand, cost.currency)),
      item("Saved an hour", money(cost.saved, cost.currency), share)),
    cost.without_price ? h("p", { class: "lead" }, `${plural(cost.without_price, "node")} in use without a price.`) : "",
    cost.stale ? h("p", { class: "notice" }, "The prices are stale.") : "");
}

export function spotPage(main, signal) {
  const cost = h("div", {});
  const stats = h("dl", { class: "stats" });
  const left = (until) => (until === null ? "\u2013" : until > store.summary.now ? `in ${span(until - store.summary.now)}` : "overdue");
  const notices = new Table("Notices", [
    { title: "Node", class: "name", cell: (n) => nodeLink(n.node) },
    { title: "Zone", class: "tight", cell: (n) => name(n.zone) },
    { title: "Capacity", class: "tight", cell: (n) => n.capacity },
    { title: "Notice", class: "text", cell: (n) => n.words.map((w, i) => [i ? ", " : "", name(w)]) },
    { title: "Goes", class: "tight", cell: (n) => left(n.until) },
    { title: "Pods left", class: "num", cell: (n) => count(n.pods) },
  ], (n) => n.node);
  const fallen = new Table("Fallen back", [
    { title: "Pod", class: "name", cell: (p) => podLink(p.pod) },
    { title: "Had to leave", cell: (p) => name(p.from) },
    { title: "Stands on", cell: (p) => nodeLink(p.node) || "no node yet" },
  ], (p) => p.pod);
  const moves = new Table("Moves", [
    { title: "When", class: "tight", cell: (e) => clock(e.t) },
    { title: "What", class: "text", cell: (e) => [e.pod ? podLink(e.subject) : name(e.subject), " ", name(e.text)] },
  ], (e) => e.n);
  const noNotices = empty("No node has given notice.");
  const noFallen = empty("No pod stands elsewhere because its spot node went.");
  const noMoves = empty("The keeper has not moved anything lately.");
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Spot capacity"), h("p", { class: "lead" }, "Nodes that are about to be taken back, the pods that leave them, and what spot capacity saves.")),
    stats, panel("Savings", cost), panel("Notices", notices.element, noNotices),
    h("div", { class: "columns" }, panel("Fallen back to other capacity", fallen.element, noFallen), panel("What the keeper did", moves.element, noMoves)));
  const show = (table, note, rows, caption) => { table.update(rows, caption); table.element.hidden = !rows.length; note.hidden = rows.length > 0; };
  const load = async () => {
    const [page, told] = await Promise.all([get("spot"), get("timeline")]);
    if (signal.aborted) return;
    stats.replaceChildren(...page.capacity.filter((c) => c.nodes || c.kind !== "unknown").map((c) => h("div", {}, h("dt", {}, c.kind === "unknown" ? "Capacity unknown" : c.kind), h("dd", {}, count(c.nodes), " ", h("small", {}, `nodes, ${plural(c.pods, "pod")}`)))));
    cost.replaceChildren(costStats(page.cost));
    show(notices, noNotices, page.notices, `${plural(page.notices.length, "node")} about to go away`);
    show(fallen, noFallen, page.fallen, plural(page.fallen.length, "pod"));
    show(moves, noMoves, told.entries.filter((e) => e.what === "keeper").slice(0, 60), "Newest first");
  };
  return Promise.all([whenNew("spot", signal, 1000, load), whenNew("timeline", signal, 2000, load)]);
}
