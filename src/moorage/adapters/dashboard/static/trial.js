// A configuration on trial: how long it has run, what both sides count, and what came of it.

import { get } from "./api.js";
import { empty, h, name, panel, Table } from "./dom.js";
import { whenNew } from "./store.js";
import { count, span } from "./words.js";

const VERDICTS = { Better: "the trial is better", Worse: "the trial is worse", Alike: "no measure differs beyond its limit", Unknown: "not known, there were too few pods" };
const ENDS = {
  Worse: "It was worse than its limits allow, and went.", TimeOver: "Its time is over.",
  Removed: "Its document was removed.", Broken: "Its document cannot be read any more.",
};

const shownAmount = (value, unit) => (unit === "s" ? `${Number(value.toPrecision(3))} s` : count(value));
const allowed = (r) => (r.ratio === null ? "" : `${Number(r.ratio.toPrecision(3))} times the control + ${shownAmount(r.amount, r.unit)}`);

function facts(page) {
  const t = page.trial;
  const item = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  const state = t.phase === "Running" ? "runs" : t.phase === "Kept" ? "its profiles stay" : "has ended";
  return h("dl", { class: "stats", "aria-label": "The trial in numbers" },
    item("Trial", name(t.name)), item("State", state), item("Has run for", span(t.ranSeconds)),
    page.terms ? item("Of", span(page.terms.duration)) : null,
    ...page.sides.toReversed().map((s) => item(s.side === "trial" ? "Placed in the trial" : "Placed beside it", count(s.placed))));
}

export function trialPage(main, signal) {
  const table = new Table("Both sides", [
    { title: "Measure", class: "name", cell: (r) => r.title },
    { title: "Trial", class: "num", cell: (r) => shownAmount(r.trial, r.unit) },
    { title: "Control", class: "num", cell: (r) => shownAmount(r.control, r.unit) },
    { title: "Allowed", class: "tight", cell: allowed },
  ], (r) => r.name);
  const none = empty("There is no trial: a TrialConfiguration beside the scheduler's configuration starts one.");
  const about = h("div");
  const body = panel("", about, table.element);
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Configuration on trial"),
    h("p", { class: "lead" }, "Other profiles for some of the pods, for a while. Pods that were created since the trial began are counted on both sides; counts of the control are scaled to the size of the trial before they are compared.")), body, none);
  const load = async () => {
    const page = await get("trial");
    if (signal.aborted) return;
    body.hidden = page.trial === null;
    none.hidden = page.trial !== null;
    if (page.trial === null) return;
    const t = page.trial;
    const ended = t.end ? [ENDS[t.end] ?? "", `Verdict: ${VERDICTS[t.verdict] ?? t.verdict}.`, t.message].filter(Boolean).join(" ") : "";
    const terms = page.terms ? `Pods: ${page.terms.pods}. At the end: ${page.terms.atEnd}.` : "The configuration of this dashboard has no such trial, so its limits are not known here.";
    about.replaceChildren(facts(page), h("p", { class: "legend" }, name(terms)),
      ended ? h("p", { class: t.end === "Worse" || t.end === "Broken" ? "notice bad" : "notice" }, name(ended)) : "");
    table.update(page.measures, "");
  };
  return whenNew("trial", signal, 1000, load);
}
