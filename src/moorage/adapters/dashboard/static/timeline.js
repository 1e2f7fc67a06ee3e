// What happened: decisions, evictions, nodes, the keeper, leader changes; newest first.

import { get } from "./api.js";
import { chip, choice, empty, h, name, panel, podLink, Table } from "./dom.js";
import { fixed, listen } from "./range.js";
import { whenNew } from "./store.js";
import { clock, moment, plural } from "./words.js";

const KINDS = { placed: ["Placed", "good"], waits: ["Waits", "warn"], evicted: ["Evicted", "bad"], removed: ["Removed", ""], finished: ["Finished", ""], node: ["Node", ""], keeper: ["Keeper", "warn"], leader: ["Leader", "bad"], story: ["Story", ""] };
const FILTERS = [["", "All"], ["placed waits", "Decisions"], ["evicted removed finished", "Evictions and removals"], ["keeper", "Keeper"], ["node", "Nodes"], ["leader story", "Leader and story"]];
const MOST = 400;
const remembered = { filter: "" };

export function timelinePage(main, signal) {
  let entries = [];
  let last = 0;
  const table = new Table("Timeline", [
    { title: "Time", class: "tight", cell: (e) => h("time", { dateTime: new Date(e.t * 1000).toISOString(), title: moment(e.t) }, clock(e.t)) },
    { title: "What", class: "tight", cell: (e) => chip(...(KINDS[e.what] ?? [e.what])) },
    { title: "Object", class: "text name", cell: (e) => (e.pod ? podLink(e.subject) : name(e.subject)) },
    { title: "", class: "text wide", cell: (e) => name(e.text) },
  ], (e) => e.n);
  const none = empty("Nothing has happened in this time.");
  const show = () => {
    const kinds = remembered.filter.split(" ");
    const [from, to] = fixed() ?? [-Infinity, Infinity];
    const wanted = entries.filter((e) => e.t >= from && e.t <= to && (!remembered.filter || kinds.includes(e.what))).slice(0, MOST);
    table.update(wanted, `${plural(wanted.length, "entry").replace("entrys", "entries")}, newest first`);
    table.element.hidden = !wanted.length;
    none.hidden = wanted.length > 0;
  };
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Timeline"), h("p", { class: "lead" }, "Decisions, evictions, nodes and leader changes since the dashboard looks.")),
    h("div", { class: "row" }, choice("Show", FILTERS, remembered.filter, (value) => { remembered.filter = value; show(); })), panel("", table.element, none));
  listen(show, signal);
  return whenNew("timeline", signal, 600, async () => {
    const found = await get("timeline", { since: last });
    if (signal.aborted) return;
    if (found.last < last) entries = [];
    last = found.last;
    entries = [...found.entries, ...entries].slice(0, 2000);
    show();
  });
}
