// What if: drain nodes, scale workloads, add nodes; and see which pods move, wait or are evicted, and the cost.

import { post } from "./api.js";
import { announce, empty, h, name, nodeLink, panel, podLink, Table } from "./dom.js";
import { store } from "./store.js";
import { count, plural } from "./words.js";

const MOST = 300;
const remembered = { changes: [], result: null };

const key = (e) => `${e.namespace}/${e.name}`;
const describe = (c) => (c.drain ? `Drain ${c.drain}` : c.scale ? `Scale ${c.scale}` : c.afresh ? "Place all pods afresh" : `Add ${plural(c.add, "node")} like ${c.like}`);

function asked(changes) {
  return {
    drain: changes.filter((c) => c.drain).map((c) => c.drain),
    scale: changes.filter((c) => c.scale).map((c) => c.scale),
    add: changes.filter((c) => c.add).map((c) => ({ number: c.add, like: c.like })),
    afresh: changes.some((c) => c.afresh),
  };
}

const field = (label, input) => h("label", { class: "field" }, label, input);

function nodeField(label, id) {
  return field(label, h("input", { id, list: "nodes", required: true, autocomplete: "off", spellcheck: false }));
}

function forms(add) {
  const submit = (read) => (event) => { event.preventDefault(); add(read(new FormData(event.target))); event.target.reset(); };
  const form = (title, read, ...fields) => h("form", { class: "row", "aria-label": title, onsubmit: submit(read) }, fields, h("button", { type: "submit" }, "Add"));
  const input = (nameOf, props) => h("input", { name: nameOf, required: true, autocomplete: "off", spellcheck: false, ...props });
  return h("div", { class: "columns" },
    panel("Drain a node", form("Drain a node", (d) => ({ drain: d.get("node").trim() }), field("Node", input("node", { list: "nodes" })))),
    panel("Scale a workload", form("Scale a workload", (d) => ({ scale: `${d.get("namespace").trim() || "default"}/${d.get("kind")}/${d.get("name").trim()}=${d.get("replicas")}` }),
      field("Kind", h("select", { name: "kind" }, ["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"].map((k) => h("option", {}, k)))),
      field("Namespace", input("namespace", { value: "default", size: 10 })), field("Name", input("name", { size: 12 })), field("Replicas", input("replicas", { type: "number", min: 0, max: 1000000, value: 1, style: { width: "6.5em" } })))),
    panel("Add nodes", form("Add nodes", (d) => ({ add: Number(d.get("number")), like: d.get("like").trim() }),
      field("How many", input("number", { type: "number", min: 1, max: 1000, value: 1, style: { width: "6em" } })), field("Like node", input("like", { list: "nodes" })))));
}

function section(title, note, columns, rows, keyOf) {
  if (!rows.length) return null;
  const caption = rows.length > MOST ? `${count(MOST)} of ${count(rows.length)}; ${note}` : note;
  return panel(`${title} (${count(rows.length)})`, new Table(title, columns, keyOf).update(rows.slice(0, MOST), caption).element);
}

const pod = { title: "Pod", class: "name", cell: (e) => podLink(key(e)) };
const becomes = { title: "Comes back as", cell: (e) => (e.becomes ? name(e.becomes) : "") };

function usage(result) {
  const arrow = (a, b, unit = "") => (a === b ? `${a}${unit}` : `${a}${unit} \u2192 ${b}${unit}`);
  const rows = Object.entries(result.utilisation).map(([group, { before, after }]) => ({ group, before, after }));
  return panel("Utilisation", new Table("Utilisation before and after", [
    { title: "Nodes", cell: (r) => name(r.group) },
    { title: "Number", class: "num", cell: (r) => arrow(r.before.nodes, r.after.nodes) },
    { title: "Pods", class: "num", cell: (r) => arrow(r.before.pods, r.after.pods) },
    { title: "CPU", class: "num", cell: (r) => arrow(r.before.cpu.percent, r.after.cpu.percent, "%") },
    { title: "Memory", class: "num", cell: (r) => arrow(r.before.memory.percent, r.after.memory.percent, "%") },
  ], (r) => r.group).update(rows, "Before and after").element,
  result.cost ? h("p", {}, `Nodes in use cost ${result.cost.before.inUse} ${result.cost.currency} an hour before and ${result.cost.after.inUse} after.`) : null);
}

function results(result) {
  const s = result.summary;
  const stat = (title, n) => h("div", {}, h("dt", {}, title), h("dd", {}, count(n)));
  return [
    h("p", { class: "lead" }, result.changes.join("; "), "."),
    h("dl", { class: "stats" }, stat("Move", s.moves), stat("Wait", s.waits), stat("Start", s.starts), stat("Evicted", s.evicted), stat("Added", s.added), stat("Removed", s.removed)),
    ...result.notes.map((n) => h("p", { class: "notice" }, n)), ...result.budgets.map((b) => h("p", { class: "notice" }, b.message)),
    section("Pods that would wait", "they have a node now, or are new", [pod, becomes, { title: "Why", class: "text wide", cell: (e) => e.message }], result.waits, key),
    section("Pods that would move", "", [pod, { title: "From", cell: (e) => nodeLink(e.from) }, { title: "To", cell: (e) => name(e.to) }, becomes, { title: "Because of", cell: (e) => e.why }], result.moves, key),
    section("Pods that would start", "they wait now", [pod, { title: "On", cell: (e) => name(e.to) }], result.starts, key),
    section("Pods that would be evicted", "", [pod, { title: "Node", class: "name", cell: (e) => nodeLink(e.node) }, { title: "Because of", cell: (e) => e.why }, { title: "Comes back", cell: (e) => (e.returns ? "yes" : "no") }], result.evicted, key),
    section("New pods", "", [pod, { title: "Node", class: "name", cell: (e) => name(e.node ?? "no node") }], result.added, key),
    section("Pods that would go for good", "", [pod, { title: "Node", class: "name", cell: (e) => name(e.node ?? "") }], result.removed, key),
    usage(result),
  ];
}

export function whatifPage(main) {
  const list = h("ul", { class: "plain" });
  const output = h("div", { style: { display: "grid", gap: "16px" }, "aria-live": "polite" });
  const run = h("button", { type: "button", class: "primary", onclick: () => ask() }, "Try it out");
  const show = () => {
    list.replaceChildren(...remembered.changes.map((c, i) => h("li", { class: "row" }, h("bdi", { class: "grow" }, describe(c)),
      h("button", { type: "button", "aria-label": `Take out: ${describe(c)}`, onclick: () => { remembered.changes.splice(i, 1); show(); run.focus(); } }, "Take out"))));
    if (!remembered.changes.length) list.replaceChildren(h("li", { class: "empty" }, "No changes yet. Add one above."));
    run.disabled = !remembered.changes.length;
  };
  const ask = async () => {
    run.disabled = true;
    output.replaceChildren(empty("Simulating \u2026"));
    try {
      remembered.result = await post("whatif", asked(remembered.changes));
      output.replaceChildren(...results(remembered.result).filter(Boolean));
      announce("The answer is there");
    } catch (error) {
      output.replaceChildren(h("p", { class: "notice bad" }, error.message));
    }
    run.disabled = !remembered.changes.length;
  };
  const names = h("datalist", { id: "nodes" }, [...store.nodes.values()].slice(0, 5000).map((n) => h("option", { value: n.name })));
  const intro = h("div", { class: "head" }, h("h1", {}, "What if"), h("p", { class: "lead" }, "Changes on top of the cluster as it is now, simulated with the same plugins. Nothing is changed."));
  if (!store.about.whatif) return main.replaceChildren(intro, panel("", empty("What-ifs need whole objects, which a journal does not have.")));
  const afresh = h("button", { type: "button", onclick: () => { if (!remembered.changes.some((c) => c.afresh)) remembered.changes.push({ afresh: true }); show(); } }, "Place all pods afresh");
  main.replaceChildren(intro, names, forms((change) => { remembered.changes.push(change); show(); }), panel("Changes", list, h("div", { class: "row" }, run, afresh)), output);
  if (remembered.result) output.replaceChildren(...results(remembered.result).filter(Boolean));
  show();
}
