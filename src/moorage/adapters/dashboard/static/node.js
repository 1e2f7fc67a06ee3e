// One node: what it offers, what is taken, and the pods on it.

import { get } from "./api.js";
import { bar, chip, empty, h, name, panel, podLink, Table } from "./dom.js";
import { whenNew } from "./store.js";
import { count, percent, plural, requests } from "./words.js";

export const pairs = (caption, values) => new Table(caption, [
  { title: "Name", cell: ([key]) => name(key, { class: "mono" }) },
  { title: "Value", class: "text", cell: ([, value]) => name(value, { class: "mono" }) },
], ([key]) => key).update(Object.entries(values).sort(), caption);

export function nodePage(main, signal, node) {
  const head = h("div", { class: "head" }, h("h1", {}, name(node)));
  const chips = h("div", { class: "row" });
  const amounts = new Table("Resources", [
    { title: "Resource", cell: (r) => name(r[0]) },
    { title: "Requested", class: "num", cell: (r) => r[1] },
    { title: "Allocatable", class: "num", cell: (r) => r[2] },
    { title: "Share", cell: (r) => (r[3] === null ? "\u2013" : h("span", { class: "load" }, bar(r[3]), percent(r[3]))) },
  ], (r) => r[0]);
  const pods = new Table("Pods", [
    { title: "Pod", class: "name", cell: (p) => podLink(p.pod) },
    { title: "Phase", class: "tight", cell: (p) => p.phase },
    { title: "Priority", class: "num", cell: (p) => count(p.priority) },
    { title: "Requests", class: "text", cell: (p) => requests(p.requests) },
  ], (p) => p.pod);
  const labels = h("details", {}, h("summary", {}, "Labels and taints"));
  main.replaceChildren(head, chips, h("div", { class: "columns" }, panel("Resources", amounts.element), panel("Labels and taints", labels)), panel("Pods", pods.element));
  return whenNew("pods", signal, 1500, async () => {
    try {
      const page = await get("node", { name: node });
      if (signal.aborted) return;
      chips.replaceChildren(chip(page.ready ? "ready" : "not ready", page.ready ? "good" : "bad"), page.unschedulable ? chip("cordoned", "warn") : "",
        page.zone ? chip(`zone ${page.zone}`) : "", ...page.notices.map((words) => chip(words, "bad")));
      amounts.update(page.resources);
      pods.update(page.pods, plural(page.pods.length, "pod"));
      const open = labels.open;
      labels.replaceChildren(h("summary", {}, `${plural(Object.keys(page.labels).length, "label")}, ${plural(page.taints.length, "taint")}`),
        pairs("Labels", page.labels).element, page.taints.length ? h("ul", { class: "plain" }, page.taints.map((t) => h("li", {}, name(t, { class: "mono" })))) : empty("No taints."));
      labels.open = open;
    } catch (error) {
      chips.replaceChildren(h("p", { class: "notice bad" }, error.message));
    }
  });
}
