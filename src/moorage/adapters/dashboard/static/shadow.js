// What Moorage would have decided where another scheduler did, decision by decision.

import { get } from "./api.js";
import { chip, empty, h, name, nodeLink, panel, podLink, Table } from "./dom.js";
import { whenNew } from "./store.js";
import { count, percent, plural } from "./words.js";

const KINDS = { same: "good", tie: "good", order: "good", bothPending: "good", different: "bad", pendingHere: "bad", pendingThere: "warn", undecided: "warn" };

const pods = (d) => podLink(d.pod);

export function shadowPage(main, signal) {
  const verdicts = new Table("Verdicts", [
    { title: "Decisions", cell: (v) => chip(v.words, KINDS[v.verdict]) },
    { title: "Number", class: "num", cell: (v) => count(v.number) },
    { title: "Share", class: "num", cell: (v) => percent(v.share) },
  ], (v) => v.verdict);
  const plugins = new Table("Plugins", [
    { title: "Plugin", class: "name", cell: (p) => name(p.name) },
    { title: "Decisive", class: "num", cell: (p) => count(p.decisive) },
    { title: "Agree without it", class: "num", cell: (p) => count(p.agreementsWithoutIt) },
    { title: "Agree with other sign", class: "num", cell: (p) => count(p.agreementsWithTheOtherSign) },
    { title: "Rejects their node", class: "num", cell: (p) => count(p.rejections) },
  ], (p) => p.name);
  const world = new Table("The cluster", [
    { title: "The cluster", cell: (w) => name(w.what) },
    { title: "", class: "num", cell: (w) => w.figure },
  ], (w) => w.what);
  const differences = new Table("Differences", [
    { title: "Pod", class: "name", cell: pods },
    { title: "Verdict", cell: (d) => d.words },
    { title: "There", cell: (d) => nodeLink(d.there) },
    { title: "Here", cell: (d) => nodeLink(d.here) },
    { title: "Why", class: "wide", cell: (d) => name(d.why) },
  ], (d) => `${d.pod} ${d.at} ${d.words}`);
  const lead = h("p", { class: "lead" });
  const said = h("div", {});
  const none = empty("No scheduler is compared here: start the dashboard with --shadow NAME, such as default-scheduler.");
  const due = panel("Plugins behind the differences", plugins.element);
  const list = panel("Differences, newest first", differences.element);
  const body = h("div", { hidden: true }, panel("", verdicts.element), said, due, list, panel("", world.element));
  none.hidden = true;
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Shadow"), lead), body, none);
  const load = async () => {
    const page = await get("shadow");
    if (signal.aborted) return;
    body.hidden = !page.on;
    none.hidden = page.on;
    if (!page.on) return;
    const judged = Object.entries(page.schedulers).map(([other, profile]) => `${other} (profile ${profile})`).join(", ");
    const agreed = page.agreement === null ? "no decisions yet" : `${(100 * page.agreement).toFixed(2)}% agreement`;
    lead.replaceChildren("What Moorage would have decided in place of ", name(judged), `: ${agreed}.`);
    verdicts.update(page.verdicts.filter((v) => v.number).map((v) => ({ ...v, share: v.number / page.total })), plural(page.total, "decision"));
    said.replaceChildren(...page.conclusions.map((text) => h("p", { class: "notice" }, text)));
    plugins.update(page.plugins, plural(page.plugins.length, "plugin"));
    differences.update(page.differences, plural(page.differences.length, "difference"));
    world.update(page.world, "The cluster in figures");
    due.hidden = !page.plugins.length;
    list.hidden = !page.differences.length;
  };
  return whenNew("pods", signal, 1000, load);
}
