// Repacking: which moves would empty nodes or make room for pods that wait, and what that saves. Nothing is changed.

import { post } from "./api.js";
import { announce, empty, h, nodeLink, panel, podLink, Table } from "./dom.js";
import { count, plural } from "./words.js";

const MOST = 300;
const key = (m) => `${m.namespace}/${m.name}`;

function moves(title, rows) {
  if (!rows.length) return null;
  const caption = rows.length > MOST ? `${count(MOST)} of ${plural(rows.length, "move")}` : plural(rows.length, "move");
  return panel(title, new Table(title, [
    { title: "Pod", class: "name", cell: (m) => podLink(key(m)) },
    { title: "From", class: "name", cell: (m) => nodeLink(m.from) },
    { title: "To", class: "name", cell: (m) => nodeLink(m.to) },
  ], key).update(rows.slice(0, MOST), caption).element);
}

function results(plan) {
  const stat = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  return [
    h("dl", { class: "stats" }, stat("Nodes in use", count(plan.inUse)), stat("Could be empty", count(plan.gained)), stat("At most", count(plan.bound)),
      stat("Moves", count(plan.moves.length)), plan.saves ? stat(`Saves ${plan.saves.currency} an hour`, plan.saves.perHour) : null),
    panel("", h("ul", { class: "plain" }, plan.lines.map((line) => h("li", {}, h("bdi", {}, line))))),
    ...plan.rooms.map((room) => moves(`Room for ${room.unit}`, room.moves)),
    moves("Moves that empty nodes", plan.moves),
  ].filter(Boolean);
}

export function repackPage(main, signal) {
  const output = h("div", { style: { display: "grid", gap: "16px" }, "aria-live": "polite" });
  const ask = async () => {
    run.disabled = true;
    output.replaceChildren(empty("Planning \u2026"));
    try {
      const plan = await post("repack", {});
      if (signal.aborted) return;
      output.replaceChildren(...results(plan));
      announce("The plan is there");
    } catch (error) {
      output.replaceChildren(h("p", { class: "notice bad" }, error.message));
    }
    run.disabled = false;
  };
  const run = h("button", { type: "button", class: "primary", onclick: ask }, "Plan again");
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Repack"),
    h("p", { class: "lead" }, "Which pods could move so that nodes become empty, or so that what waits finds room. Every move is proven with the profiles' own rules; nothing is changed. The keeper carries such plans out if its configuration has repack."), run), output);
  ask();
}
