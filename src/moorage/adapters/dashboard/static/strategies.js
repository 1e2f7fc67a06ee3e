// Strategies and spread: target and actual of each rule; a strategy can be edited, tried out and applied.

import { get, hasToken, post } from "./api.js";
import { announce, bar, chip, empty, h, name, nodeLink, panel, podLink, Table } from "./dom.js";
import { store, whenNew } from "./store.js";
import { count, plural } from "./words.js";

/** Labels, which may break behind a slash, a colon or a comma. */
const labels = (text) => h("bdi", { class: "mono", dir: "ltr" }, text.split(/(?<=[/:,])/).map((part, i) => [i ? h("wbr", {}) : null, part]));

const ruleTable = (caption, rules, columns) => new Table(caption, [
  { title: "Nodes with", class: "text", cell: (r) => labels(r.labels) },
  { title: "Base", class: "num", cell: (r) => count(r.base) },
  { title: "Weight", class: "num", cell: (r) => count(r.weight) },
  ...columns,
], (r) => r.labels).update(rules, caption).element;

function actualColumns(rules) {
  const most = Math.max(1, ...rules.map((r) => Math.max(r.target, r.actual)));
  return [
    { title: "Target", class: "num", cell: (r) => count(r.target) },
    { title: "Actual", class: "num", cell: (r) => h("strong", {}, count(r.actual)) },
    { title: "", cell: (r) => bar(r.actual / most, r.target / most) },
  ];
}

function mistakeList(mistakes) {
  return h("ul", { class: "mistakes" }, mistakes.map((m) => h("li", {}, `${m.where}: ${m.what}; ${m.remedy}`)));
}

function previewOf(found) {
  if (!found.known) return empty("The workload has no pods yet, so there is nothing to try out.");
  const columns = [
    { title: "Target", class: "num", cell: (r) => count(r.target) },
    { title: "Stay", class: "num", cell: (r) => count(r.staying) },
    { title: "After", class: "num", cell: (r) => h("strong", {}, count(r.after)) },
  ];
  const moves = new Table("Moves", [
    { title: "Pod", class: "name", cell: (m) => podLink(m.pod) }, { title: "From", cell: (m) => nodeLink(m.from) }, { title: "To", cell: (m) => nodeLink(m.to) },
  ], (m) => m.pod).update(found.moves, plural(found.moving, "pod") + " would move").element;
  return h("div", { class: "editor" }, ruleTable(`With this strategy, for ${plural(found.pods, "pod")}`, found.rules, columns),
    found.moving ? moves : empty("No pod would move."),
    found.stuck.length ? h("p", { class: "notice" }, `${plural(found.stuck.length, "pod")} would find no room where the strategy wants them: ${found.stuck.slice(0, 5).join(", ")}`) : null,
    found.fault ? h("p", { class: "notice bad" }, found.fault) : null);
}

/** The editor of one strategy; it lives on while the page is brought up to date. */
class Editor {
  constructor(workload, done) {
    this.workload = workload;
    this.id = `strategy-${Math.random().toString(36).slice(2)}`;
    this.area = h("textarea", { id: this.id, rows: 4, value: workload.text, spellcheck: false, "aria-describedby": `${this.id}-said`, oninput: () => this.typed() });
    this.said = h("div", { id: `${this.id}-said`, "aria-live": "polite" });
    this.preview = h("div", {});
    this.apply = h("button", { type: "submit", class: "primary", disabled: true }, "Apply");
    const may = store.about.writes && hasToken;
    const why = store.about.mode === "journal" ? "A journal is a record: nothing can be applied." : "Read-only. Start the dashboard with --allow-writes and use the address that it prints.";
    this.may = may && workload.location !== null;
    this.element = h("form", { class: "editor", onsubmit: (event) => { event.preventDefault(); this.send(); } },
      h("label", { htmlFor: this.id }, "Strategy: rules with ; between them"), this.area, this.said, this.preview,
      h("div", { class: "row" }, this.apply, h("button", { type: "button", onclick: done }, "Close"),
        workload.location === null ? h("span", { class: "lead" }, "It is written on the pods, and cannot be changed here.") : this.may ? h("span", { class: "lead" }, `Writes ${workload.location.key || "spec.rules"} of ${workload.location.kind} ${workload.location.namespace}/${workload.location.name}.`) : h("span", { class: "lead" }, why)));
    this.turn = 0;
    this.look();
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), 150);
  }

  async look() {
    const turn = (this.turn += 1);
    const text = this.area.value;
    const { namespace, kind, name: workload } = this.workload;
    try {
      const checked = await post("strategy/check", { text });
      if (turn !== this.turn) return;
      this.area.setAttribute("aria-invalid", String(!checked.ok));
      this.apply.disabled = !checked.ok || !this.may || text === this.workload.text;
      this.said.replaceChildren(checked.ok ? "" : mistakeList(checked.mistakes));
      if (!checked.ok) return this.preview.replaceChildren();
      const found = await post("strategy/preview", { namespace, kind, name: workload, text });
      if (turn === this.turn) this.preview.replaceChildren(previewOf(found));
    } catch (error) {
      this.said.replaceChildren(h("p", { class: "notice bad" }, error.message));
    }
  }

  async send() {
    this.apply.disabled = true;
    try {
      const text = this.area.value;
      await post("apply/strategy", { ...this.workload.location, text });
      this.workload = { ...this.workload, text };
      this.said.replaceChildren(h("p", { class: "notice good" }, "Applied. Pods follow as the scheduler and the keeper act."));
      announce("Applied");
    } catch (error) {
      this.said.replaceChildren(h("p", { class: "notice bad" }, error.message));
      this.apply.disabled = false;
    }
  }
}

/** The card of one workload; rebuilt when its numbers change, but never its editor. */
class Card {
  constructor() {
    this.body = h("div", { class: "panel", style: { border: "0", padding: "0" } });
    this.slot = h("div", {});
    this.element = h("section", { class: "panel" }, this.body, this.slot);
    this.text = "";
    this.editor = null;
  }

  update(w) {
    const text = JSON.stringify(w);
    if (text === this.text) return this;
    this.text = text;
    const state = w.off ? chip("off target", "warn") : chip("on target", "good");
    const notes = [w.waiting ? `${plural(w.waiting, "pod")} without a node` : "", w.strays ? `${plural(w.strays, "pod")} on nodes of no rule` : ""].filter(Boolean).join("; ");
    this.button = this.button ?? h("button", { type: "button", onclick: () => this.toggle() });
    this.button.textContent = this.editor ? "Close the editor" : "Edit";
    this.button.setAttribute("aria-expanded", String(this.editor !== null));
    this.button.setAttribute("aria-label", `${this.editor ? "Close the editor of" : "Edit the strategy of"} ${w.title}`);
    this.workload = w;
    const source = w.policy ? ["from PlacementPolicy ", name(w.policy)] : "";
    const head = h("div", { class: "row" }, h("h2", {}, name(w.title)), state, h("span", { class: "lead" }, source), h("span", { class: "grow" }), this.button);
    const focused = document.activeElement === this.button;
    this.body.replaceChildren(head, ruleTable(`Pods by rule${w.desired === null ? "" : `, ${count(w.desired)} desired`}`, w.rules, actualColumns(w.rules)), notes ? h("p", { class: "lead" }, notes) : "");
    if (focused) this.button.focus();
    return this;
  }

  toggle() {
    this.editor = this.editor ? null : new Editor(this.workload, () => this.toggle());
    this.slot.replaceChildren(...(this.editor ? [this.editor.element] : []));
    this.text = "";
    this.update(this.workload);
    (this.editor?.area ?? this.button).focus();
  }
}

const example = () => panel("No workload has a strategy", h("p", { class: "lead" }, "A strategy says how the pods of a workload are split over kinds of nodes. Give a Deployment the annotation"),
  h("pre", { tabIndex: 0 }, 'moorage.dev/schedule-strategy: "base=2,weight=1,nodeSelector=node.kubernetes.io/capacity:on-demand;weight=3,nodeSelector=node.kubernetes.io/capacity:spot"'),
  h("p", { class: "lead" }, "and it shows here with target and actual of each rule."));

export function strategiesPage(main, signal) {
  const cards = new Map();
  const holder = h("div", { class: "columns", style: { "grid-template-columns": "repeat(auto-fit, minmax(min(100%, 520px), 1fr))" } });
  const none = example();
  const warning = h("p", { class: "notice", hidden: true }, "The profile that the dashboard runs with does not have the plugin PlacementStrategy, so previews do not follow the rules. Start it with the scheduler's --config.");
  const broken = h("div", { hidden: true });
  const spread = new Table("Spread", [
    { title: "Workload", cell: (r) => name(r.title) },
    { title: "Hosts wanted", class: "num", cell: (r) => (r.wanted === null ? h("span", {}, chip("not a number", "bad"), " ", name(r.said)) : count(r.wanted)) },
    { title: "Hosts", class: "num", cell: (r) => count(r.hosts) },
    { title: "Pods on nodes", class: "num", cell: (r) => count(r.pods) },
    { title: "", class: "tight", cell: (r) => (r.wanted !== null && r.hosts < r.wanted ? chip("too few hosts", "warn") : chip("spread", "good")) },
  ], (r) => r.title);
  const spreadPanel = panel("Spread over hosts", spread.element);
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Strategies and spread"), h("p", { class: "lead" }, "How the pods of each workload are split over its rules, and how they should be. The line in a bar is the target.")),
    warning, broken, holder, none, spreadPanel);
  return whenNew("strategies", signal, 500, async () => {
    const page = await get("strategies");
    if (signal.aborted) return;
    warning.hidden = page.plugin || !page.workloads.length;
    none.hidden = page.workloads.length > 0 || page.unreadable.length > 0;
    spreadPanel.hidden = !page.spread.length;
    spread.update(page.spread, plural(page.spread.length, "workload") + " with moorage.dev/min-hosts");
    broken.hidden = !page.unreadable.length;
    broken.replaceChildren(...page.unreadable.map((u) => h("p", { class: "notice bad" }, name(u.title), ": ", name(u.error))));
    const seen = new Set();
    for (const workload of page.workloads) {
      seen.add(workload.owner);
      if (!cards.has(workload.owner)) cards.set(workload.owner, new Card());
      const card = cards.get(workload.owner).update(workload);
      if (!card.element.isConnected) holder.append(card.element);
    }
    for (const [owner, card] of cards) if (!seen.has(owner) && !card.editor) { card.element.remove(); cards.delete(owner); }
  });
}
