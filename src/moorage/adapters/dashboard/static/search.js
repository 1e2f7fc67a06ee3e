// Pods and nodes by name.

import { get } from "./api.js";
import { chip, empty, h, name, nodeLink, panel, podLink, Table } from "./dom.js";
import { PLACES, plural } from "./words.js";

export async function searchPage(main, signal, text) {
  const body = h("div", { style: { display: "grid", gap: "16px" } }, empty("Looking \u2026"));
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Found for ", name(text))), body);
  const found = await get("search", { q: text });
  if (signal.aborted) return;
  const pods = new Table("Pods", [
    { title: "Pod", class: "name", cell: (p) => podLink(p.pod) },
    { title: "Node", class: "name", cell: (p) => nodeLink(p.node) || chip(PLACES[p.place] ?? p.phase) },
    { title: "Phase", cell: (p) => p.phase },
  ], (p) => p.pod).update(found.pods, `${plural(found.pods.length, "pod")}${found.more ? ", and there are more" : ""}`);
  const nodes = h("ul", { class: "plain" }, found.nodes.map((n) => h("li", {}, nodeLink(n))));
  body.replaceChildren(panel("Pods", found.pods.length ? pods.element : empty("No pod has this in its name.")),
    panel("Nodes", found.nodes.length ? nodes : empty("No node has this in its name.")));
}
