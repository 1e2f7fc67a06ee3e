// Charts: how requests, waiting, binds, evictions, cost and leaders changed over time.

import { Chart, prepare } from "./chart.js";
import { announce, choice, empty, h } from "./dom.js";
import { History } from "./history.js";
import { bounds, fix, follow, latest, listen, RANGES, seek, unfix } from "./range.js";
import { store, whenNew } from "./store.js";
import { moment } from "./words.js";

const FLOW_MS = 5000; // Time goes on where nothing happens.
const SHORTEST_S = 5;
const GIB = 2 ** 30;

const plain = (word) => () => [1, word];
const cores = () => [1000, "cores"];
const bytes = (most) => (most >= 10240 * GIB ? [1024 * GIB, "TiB"] : most >= GIB ? [GIB, "GiB"] : [GIB / 1024, "MiB"]);
const seconds = (most) => (most >= 7200 ? [3600, "hours"] : most >= 180 ? [60, "minutes"] : [1, "seconds"]);

const resource = (title, key, unit) => ({
  key: `resource ${key}`, title, unit, empty: "No node offers it.",
  lines: (history) => [
    { key: "allocated", label: "Allocated to pods on nodes", values: history.of(`allocated ${key}`), filled: true },
    { key: "requested", label: "Requested by all pods", values: history.of(`requested ${key}`) },
    { key: "capacity", label: "Allocatable", values: history.of(`capacity ${key}`), dashed: true },
  ],
});

const unitOf = (name) => ({ cpu: cores, memory: bytes })[name] ?? plain("");

/** What queues have of a resource, or may have: a line for each of the largest. */
const ofQueues = (name, word, title) => ({
  key: `${word} ${name}`, title: `Queues: ${title} ${name}`, unit: unitOf(name), empty: "No queue asked for it.",
  lines: (history) => history.names(word).filter((key) => key.startsWith(`${name} `)).map((key) => ({ key, label: key.slice(name.length + 1), values: history.of(`${word} ${key}`) })),
});

const queueCharts = (history) => [...new Set(history.names("used").map((key) => key.split(" ")[0]))]
  .flatMap((name) => [ofQueues(name, "used", "allocated"), ofQueues(name, "share", "fair shares of")]);

const SPECS = [
  resource("CPU", "cpu", cores),
  resource("Memory", "memory", bytes),
  { key: "waiting", title: "Pending pods by reason", unit: plain("pods"), whole: true, empty: "No pod was pending.",
    lines: (history) => history.names("waiting").map((reason) => ({ key: reason, label: reason, values: history.of(`waiting ${reason}`) })).filter((line) => line.values.some((v) => v > 0)) },
  { key: "rates", title: "Binds and evictions", unit: plain("per minute"), empty: "Nothing is known yet.",
    lines: (history) => [{ key: "binds", label: "Binds", values: history.of("binds"), filled: true }, { key: "evictions", label: "Evictions", values: history.of("evictions") }] },
  { key: "waited", title: "Time from creation to bind", unit: seconds, gaps: true, empty: "No pod was bound.",
    lines: (history) => [["p50", "Half of the pods"], ["p95", "95%"], ["p99", "99%"]].map(([key, label]) => ({ key, label: `${label} within`, values: history.of(key) })) },
  { key: "spot", title: "Spot share of allocated CPU", unit: () => [0.01, "%"], most: 100, empty: "No node says whether it is spot capacity.",
    lines: (history) => [{ key: "spot", label: "Share", values: history.of("spot"), filled: true }] },
  { key: "cost", title: "Cost of the nodes in use", unit: (most, history) => [1e6, `${history.currency || "price"} per hour`], empty: "No prices are known: give the profile's CostAware a price list.",
    lines: (history) => [{ key: "cost", label: "Cost", values: history.of("cost"), filled: true }, { key: "demand", label: "The same on demand", values: history.of("cost on demand"), dashed: true }] },
];

/** Who led when: a line per lease, and a height per holder. */
function leadership() {
  let holders = [];
  const short = (holder) => (holder.length > 18 ? `${holder.slice(0, 17)}\u2026` : holder);
  const height = (holder) => (holder ? holders.indexOf(holder) + 1 : 0);
  const lines = (history) => {
    holders = [...new Set(history.leaders.map((leader) => leader.holder).filter((holder) => holder))];
    const leases = [...new Set(history.leaders.map((leader) => leader.lease))];
    return leases.map((lease) => {
      const changes = history.leaders.filter((leader) => leader.lease === lease);
      return { key: lease, label: lease || "this scheduler", values: history.times.map((t) => { const found = changes.findLast((c) => c.at_s <= t); return found ? height(found.holder) : null; }) };
    });
  };
  return { key: "leaders", title: "Leaders", unit: plain(""), whole: true, stepped: true, lines, empty: "No leader was seen: there is no leader election here.",
    words: (value) => (value === 0 ? "none" : short(holders[value - 1] ?? "")) };
}

export async function chartsPage(main, signal) {
  const grid = h("div", { class: "charts" });
  const none = empty("Reading\u2026");
  const history = new History();
  const charts = new Map();
  const journal = store.about.mode === "journal";
  const page = { pickable: journal, moment: () => (journal ? store.summary.now : null), zoom, reset: unfix, point: (at) => { for (const chart of charts.values()) chart.point(at); }, pick };
  const ranges = choice("Range of time", RANGES, latest(), follow);

  function pick(at) {
    if (!journal) return;
    seek(at).then(() => announce(`All pages show ${moment(at)}`), (error) => announce(error.message));
  }

  function zoom(from, to) {
    const [first, last] = history.span ?? [from, to];
    const [a, b] = [Math.max(first, from), Math.min(last, to)];
    if (b - a < SHORTEST_S) return;
    if (a <= first && b >= last) follow(0); else fix(a, b);
    announce(`From ${moment(a)} to ${moment(b)}`);
  }

  function show() {
    if (!history.span) return;
    const range = bounds(history.span);
    const more = history.names("capacity").filter((name) => name !== "cpu" && name !== "memory").map((name) => resource(name, name, plain("")));
    const specs = [...SPECS.slice(0, 2), ...more, ...queueCharts(history), ...SPECS.slice(2), leaders];
    for (const spec of specs) {
      if (!charts.has(spec.key)) charts.set(spec.key, new Chart(spec, page));
    }
    const wanted = specs.map((spec) => charts.get(spec.key));
    if (wanted.some((chart, i) => grid.children[i] !== chart.element)) grid.replaceChildren(...wanted.map((chart) => chart.element));
    for (const chart of wanted) chart.update(history, range);
    none.hidden = true;
    for (const button of ranges.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.textContent === RANGES.find(([value]) => value === latest())?.[1]));
  }

  const leaders = leadership();
  let busy = false;
  let again = false;
  /** One after the other: what is fetched is added to what is known. */
  const load = async () => {
    again = busy;
    if (busy) return;
    busy = true;
    try {
      do {
        again = false;
        await Promise.all([history.load(), prepared]);
        if (!signal.aborted) show();
      } while (again && !signal.aborted);
    } finally { busy = false; }
  };
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Charts"),
    h("p", { class: "lead" }, `Drag over a chart to zoom in, double-click to zoom out. Beside the name of a line is its value at the time under the pointer, else the latest one.${journal ? " Click to show the cluster at that moment on all pages." : ""}`)),
    h("div", { class: "row" }, ranges), none, grid);
  listen(() => load().catch(() => {}), signal);
  document.addEventListener("themechange", () => { for (const chart of charts.values()) chart.build(); }, { signal });
  signal.addEventListener("abort", () => { for (const chart of charts.values()) chart.end(); });
  if (journal) store.listen((change) => { if (change.whole) load().catch(() => {}); }, signal);
  const prepared = prepare();
  if (!journal) {
    const timer = setInterval(() => { if (!document.hidden && latest() !== null) load().catch(() => {}); }, FLOW_MS);
    signal.addEventListener("abort", () => clearInterval(timer));
  }
  return whenNew("series", signal, 1000, load);
}
