// One node: what it offers, what is taken, the pods on it, and the devices that it can use with their claims or shares.

import { get } from "./api.js";
import { bar, chip, empty, h, name, panel, podLink, Table } from "./dom.js";
import { whenNew } from "./store.js";
import { count, percent, plural, requests } from "./words.js";

export const pairs = (caption, values) => new Table(caption, [
  { title: "Name", cell: ([key]) => name(key, { class: "mono" }) },
  { title: "Value", class: "text", cell: ([, value]) => name(value, { class: "mono" }) },
], ([key]) => key).update(Object.entries(values).sort(), caption);

const DEVICE_KINDS = { free: "good", missing: "bad", failed: "bad", blocked: "warn" };
const lines = (parts) => parts.map((part) => h("div", {}, part));

/** Capacity, what is taken of shared counters, and attributes; or why the device is missing. */
function deviceWords(d) {
  if (d.problem) return d.problem;
  const amounts = Object.entries(d.capacity).map(([key, text]) => `${key} ${key in d.consumed ? `${d.consumed[key]} of ` : ""}${text}`);
  return [...amounts, ...Object.entries({ ...d.counters, ...d.attributes }).map(([key, value]) => `${key} ${value ?? "?"}`)].join(", ");
}

const poolLines = (p) => [...(p.problem ? [`${p.driver}/${p.pool} is ${p.problem}`] : []),
  ...Object.entries(p.counters).map(([key, { free, total }]) => `${p.driver}/${p.pool}: ${key}, ${free} of ${total} free`)];

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
  const devices = new Table("Devices", [
    { title: "Device", class: "name", cell: (d) => name(`${d.driver}/${d.pool}/${d.device}`) },
    { title: "State", class: "tight", cell: (d) => chip(d.state, DEVICE_KINDS[d.state]) },
    { title: "Claims", cell: (d) => lines(d.claims.map((c) => [name(c.claim), c.adminAccess ? " (admin)" : ""])) },
    { title: "Pods", cell: (d) => lines([...new Set(d.claims.flatMap((c) => c.pods))].map(podLink)) },
    { title: "Taints", cell: (d) => lines(d.taints.map((t) => name(t, { class: "mono" }))) },
    { title: "Details", class: "text", cell: (d) => name(deviceWords(d)) },
  ], (d) => `${d.driver}/${d.pool}/${d.device}`);
  const left = ({ free, total, unit }) => h("span", { class: "load" }, bar(1 - free / total), `${count(free)} of ${count(total)}${unit}`);
  const parts = (d) => lines(d.pods.map((p) => [podLink(p.pod), ` ${count(p.compute)}m, ${count(p.memory)}${d.memory.unit}`]));
  const shared = new Table("Shared devices", [
    { title: "Device", class: "name", cell: (d) => name([d.device, d.uuid, d.model].filter((part) => part !== "").join(" ")) },
    { title: "State", class: "tight", cell: (d) => chip(d.state, DEVICE_KINDS[d.state]) },
    { title: "Compute left", cell: (d) => left(d.compute) },
    { title: "Memory left", cell: (d) => left(d.memory) },
    { title: "Pods", cell: parts },
  ], (d) => d.device);
  const pools = h("ul", { class: "plain" });
  const equipment = panel("Devices", devices.element, pools);
  const sharing = panel("Shared devices", shared.element);
  sharing.hidden = true;
  equipment.hidden = true;
  const labels = h("details", {}, h("summary", {}, "Labels and taints"));
  main.replaceChildren(head, chips, h("div", { class: "columns" }, panel("Resources", amounts.element), panel("Labels and taints", labels)), equipment, sharing, panel("Pods", pods.element));
  return whenNew("pods", signal, 1500, async () => {
    try {
      const page = await get("node", { name: node });
      if (signal.aborted) return;
      chips.replaceChildren(chip(page.ready ? "ready" : "not ready", page.ready ? "good" : "bad"), page.unschedulable ? chip("cordoned", "warn") : "",
        page.zone ? chip(`zone ${page.zone}`) : "", ...page.notices.map((words) => chip(words, "bad")));
      amounts.update(page.resources);
      pods.update(page.pods, plural(page.pods.length, "pod"));
      equipment.hidden = !page.devices.length && !page.pools.length;
      devices.update(page.devices, plural(page.devices.length, "device"));
      pools.replaceChildren(...page.pools.flatMap(poolLines).map((text) => h("li", {}, name(text))));
      sharing.hidden = !page.shared.length;
      shared.update(page.shared, plural(page.shared.length, "device"));
      const open = labels.open;
      labels.replaceChildren(h("summary", {}, `${plural(Object.keys(page.labels).length, "label")}, ${plural(page.taints.length, "taint")}`),
        pairs("Labels", page.labels).element, page.taints.length ? h("ul", { class: "plain" }, page.taints.map((t) => h("li", {}, name(t, { class: "mono" })))) : empty("No taints."));
      labels.open = open;
    } catch (error) {
      chips.replaceChildren(h("p", { class: "notice bad" }, error.message));
    }
  });
}
