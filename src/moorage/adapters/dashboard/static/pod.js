// One pod: where it stands or why it waits, why not elsewhere, and what would help.

import { get } from "./api.js";
import { chip, empty, h, name, nodeLink, panel, Table } from "./dom.js";
import { pairs } from "./node.js";
import { store, whenNew } from "./store.js";
import { clock, count, moment, PLACE_KINDS, PLACES, plural, requests, span } from "./words.js";

function facts(pod) {
  const line = (title, value) => (value ? h("div", {}, h("dt", {}, title), h("dd", {}, h("small", {}, value))) : null);
  return h("dl", { class: "stats" }, line("Requests", requests(pod.requests)), line("Owner", pod.owner ? name(pod.owner) : ""), line("Scheduler", name(pod.scheduler)),
    line("Priority", count(pod.priority)), line("Gang", pod.gang ? name(pod.gang) : ""), line("Created", `${moment(pod.created)}, ${span(store.summary.now - pod.created)} ago`));
}

/** Plugins that tell nodes apart, the ones that matter most first. */
function deciding(best) {
  const plugins = [...new Set(best.flatMap((b) => Object.keys(b.scores)))];
  const spread = (p) => { const values = best.map((b) => b.scores[p] ?? 0); return Math.max(...values) - Math.min(...values); };
  return plugins.sort((a, b) => spread(b) - spread(a) || a.localeCompare(b));
}

function whyHere(page) {
  if (!page.best.length) return "";
  const title = page.pod.node ? "Why here" : "Where it would go";
  const plugins = deciding(page.best).slice(0, 7);
  const most = Math.max(1, ...page.best.map((b) => b.total));
  const row = (b) => ({ ...b, chosen: page.chosen === b.node, here: page.pod.node === b.node });
  const mark = (b) => [b.here ? h("span", { class: "marker" }, " stands here") : "", b.chosen && !b.here ? h("span", { class: "marker" }, " would be chosen") : ""];
  const stack = (b) => h("span", { class: "stack", "aria-hidden": "true" }, plugins.map((p, i) => h("i", { class: `s${i}`, title: `${p} ${b.scores[p] ?? 0}`, style: { width: `${(100 * (b.scores[p] ?? 0)) / most}%` } })));
  const table = new Table("Nodes that fit, best first", [
    { title: "Node", class: "name", cell: (b) => [nodeLink(b.node), mark(b)] },
    { title: "Total", class: "num", cell: (b) => count(b.total) },
    { title: "", cell: stack },
    ...plugins.map((p, i) => ({ title: [h("i", { class: `s${i}`, style: { display: "inline-block", width: "8px", height: "8px", "border-radius": "2px", "margin-right": "4px" } }), p.split(/(?=[A-Z][a-z])/).map((part) => [h("wbr", {}), part])], class: "num plugin", cell: (b) => count(b.scores[p] ?? 0) })),
  ], (b) => b.node).update(page.best.map(row), `${count(page.best.length)} of ${plural(page.fitting, "node")} that fit, best first; every plugin's score times its weight`);
  return panel(title, table.element, page.second ? h("p", { class: "lead" }, name(page.second)) : null);
}

function whyNot(page) {
  if (!page.rejections.length) return panel("Why not elsewhere", empty("No node was rejected: those that rank lower only score less."));
  const more = (r) => (r.count > r.nodes.length ? ` and ${count(r.count - r.nodes.length)} more` : "");
  const table = new Table("Rejected nodes", [
    { title: "Nodes", class: "num", cell: (r) => count(r.count) },
    { title: "Reason", class: "text", cell: (r) => h("strong", {}, r.reason) },
    { title: "Plugin", class: "tight", cell: (r) => r.plugin },
    { title: "Which", class: "text", cell: (r) => [r.nodes.map((n, i) => [i ? ", " : "", nodeLink(n)]), more(r)] },
  ], (r) => `${r.plugin} ${r.reason}`).update(page.rejections, `${plural(page.nodes - page.fitting, "node")} rejected, by reason`);
  return panel("Why not elsewhere", table.element, (page.details ?? []).map(detail));
}

function detail(found) {
  return h("section", {}, h("h3", {}, name(found.title)), h("ul", {}, found.lines.map((line) => h("li", {}, name(line)))));
}

function soFar(page) {
  const table = new Table("What happened so far", [
    { title: "Time", class: "tight", cell: (s) => h("time", { dateTime: new Date(s.t * 1000).toISOString(), title: moment(s.t) }, clock(s.t)) },
    { title: "", class: "text wide", cell: (s) => name(s.text) },
  ], (s) => s.n).update(page.story.map((s, n) => ({ ...s, n })), "The latest, oldest first");
  return panel("What happened so far", table.element);
}

function suggestionItem(suggestion) {
  const text = JSON.stringify(suggestion.objects, null, 2);
  return h("li", {}, name(suggestion.text), suggestion.objects?.length ? h("details", {}, h("summary", {}, suggestion.objects.length === 1 ? "The changed object" : `The ${count(suggestion.objects.length)} changed objects`), h("pre", { tabIndex: 0 }, text)) : null);
}

export function podPage(main, signal, key) {
  const status = h("div", { class: "row" });
  const verdict = h("p", { class: "lead", "aria-live": "polite" });
  const message = h("p", { class: "notice", hidden: true });
  const numbers = h("div", {});
  const here = h("div", {});
  const not = h("div", {});
  const story = h("div", {});
  const helpBody = h("div", { "aria-live": "polite" });
  const help = panel("What would help", helpBody);
  const details = h("details", { class: "panel" }, h("summary", {}, "Labels and annotations"));
  help.hidden = true;
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, name(key)), verdict), status, message, numbers, help, here, not, story, details);

  const suggestFor = async (page) => {
    help.hidden = !store.about.suggests || page.pod.node !== "" || !page.judged;
    if (help.hidden || helpBody.dataset.busy) return;
    helpBody.dataset.busy = "yes";
    if (!helpBody.children.length) helpBody.replaceChildren(empty("Trying changes \u2026"));
    try {
      const { suggestions } = await get("suggestions", { key });
      if (!signal.aborted) {
        helpBody.replaceChildren(suggestions.length ? h("ol", { class: "ranked" }, suggestions.map(suggestionItem))
          : empty(page.chosen ? "Nothing has to change: a node fits now." : "No small change makes it fit."));
      }
    } catch (error) {
      helpBody.replaceChildren(h("p", { class: "notice" }, error.message));
    }
    delete helpBody.dataset.busy;
  };

  return whenNew("pods", signal, 3000, async () => {
    try {
      const page = await get("pod", { key });
      if (signal.aborted) return;
      const pod = page.pod;
      status.replaceChildren(pod.node ? h("span", {}, "on ", nodeLink(pod.node)) : "", chip(pod.deleting ? "Terminating" : pod.phase, pod.phase === "Running" ? "good" : ""),
        pod.place ? chip(PLACES[pod.place], PLACE_KINDS[pod.place]) : "", pod.nominated ? h("span", {}, "nominated to ", nodeLink(pod.nominated)) : "");
      verdict.textContent = page.verdict;
      message.hidden = !pod.message;
      message.replaceChildren(name(pod.message));
      numbers.replaceChildren(facts(pod));
      here.replaceChildren(page.judged ? whyHere(page) : "");
      not.replaceChildren(page.judged ? whyNot(page) : "");
      story.replaceChildren(page.story.length ? soFar(page) : "");
      story.hidden = !page.story.length;
      here.hidden = !here.textContent;
      not.hidden = !not.textContent;
      const open = details.open;
      details.replaceChildren(h("summary", {}, "Labels and annotations"), pairs("Labels", pod.labels).element, pairs("Annotations", pod.annotations).element, pairs("Node selector", pod.selector).element);
      details.open = open;
      suggestFor(page);
    } catch (error) {
      status.replaceChildren(h("p", { class: "notice bad" }, error.message));
    }
  });
}
