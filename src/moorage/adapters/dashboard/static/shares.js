// The tree of queues: what each may have, has and waits for.

import { get } from "./api.js";
import { empty, h, name, panel, Table } from "./dom.js";
import { whenNew } from "./store.js";
import { count, plural } from "./words.js";

/** Use and, behind it, what waits; a line at the fair share and a dotted one at the quota. The numbers beside it say the same. */
function shareBar(r) {
  const at = (amount) => `${Math.min(100, (100 * amount) / r.scale).toFixed(1)}%`;
  const over = r.amounts.allocated > Math.max(r.amounts.share, r.amounts.quota ?? Infinity);
  return h("span", { class: "bar share-bar", "aria-hidden": "true" },
    h("i", { class: "waits", style: { width: at(r.amounts.allocated + r.amounts.waiting) } }),
    h("i", { class: over ? "over" : "", style: { width: at(r.amounts.allocated) } }),
    r.amounts.quota === null ? null : h("b", { class: "quota", style: { left: `min(${at(r.amounts.quota)}, calc(100% - 2px))` } }),
    h("b", { style: { left: `min(${at(r.amounts.share)}, calc(100% - 2px))` } }));
}

const legend = () => h("p", { class: "legend" },
  h("span", {}, h("i", { class: "u3" }), " allocated"), h("span", {}, h("i", { class: "u5" }), " allocated beyond quota and share"),
  h("span", {}, h("i", { class: "waits" }), " waiting"), h("span", {}, h("i", { class: "line" }), " fair share"), h("span", {}, h("i", { class: "line quota" }), " quota"));

const rowsOf = (queues) => queues.flatMap((q) => q.resources.map((r, i) => ({ ...r, queue: q, first: i === 0 })));

export function sharesPage(main, signal) {
  const table = new Table("Queues", [
    { title: "Queue", class: "name", cell: (r) => (r.first ? h("span", { style: { "padding-left": `${r.queue.level * 18}px` } }, name(r.queue.name), r.queue.problem ? h("span", { class: "notice bad problem" }, r.queue.problem) : "") : "") },
    { title: "Resource", class: "tight", cell: (r) => name(r.resource) },
    { title: "Use", class: "wide", cell: shareBar },
    { title: "Allocated", class: "num", cell: (r) => r.allocated },
    { title: "Waiting", class: "num", cell: (r) => r.waiting },
    { title: "Share", class: "num", cell: (r) => r.share },
    { title: "Quota", class: "num", cell: (r) => r.quota },
    { title: "Limit", class: "num", cell: (r) => r.limit },
    { title: "Weight", class: "num", cell: (r) => r.weight },
    { title: "Priority", class: "num", cell: (r) => (r.first ? count(r.queue.priority) : "") },
    { title: "Dominant", class: "num", cell: (r) => (r.first ? r.queue.dominant : "") },
  ], (r) => `${r.queue.name} ${r.resource}`);
  const none = empty("There are no Queue objects: pods share the cluster by priority and age alone.");
  const more = h("p", { class: "notice", hidden: true });
  const body = panel("", legend(), table.element, more);
  body.classList.add("shares");
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Queues and shares"),
    h("p", { class: "lead" }, "Who may have how much of the cluster, who has it, and who waits for it. Pods that wait, one by one, are on the page Queue; how use and shares change over time is on the page Charts.")), body, none);
  const load = async () => {
    const page = await get("queues");
    if (signal.aborted) return;
    table.update(rowsOf(page.queues), plural(page.total, "queue"));
    body.hidden = !page.total;
    none.hidden = page.total > 0;
    more.hidden = page.queues.length === page.total;
    more.textContent = `${count(page.total - page.queues.length)} more are not shown.`;
  };
  return whenNew("pods", signal, 1000, load);
}
