// What this page knows of the cluster: nodes by row number, the summary, and the listeners for changes.

import { events, get, Refused } from "./api.js";

const FIELDS = ["row", "name", "zone", "capacity", "state", "cpu", "cpuMost", "memory", "memoryMost", "pods", "podsMost", "devices", "devicesMost", "domain", "gangs"];
const asNode = (values) => Object.fromEntries(FIELDS.map((field, i) => [field, values[i]]));

class Store {
  constructor() {
    this.nodes = new Map();
    this.summary = null;
    this.about = {};
    this.number = 0;
    this.news = 0;
    this.loads = 0;
    this.listeners = new Set();
  }

  /** Call `listener({changed, gone, whole})` after every change until the signal says otherwise. */
  listen(listener, signal) {
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener));
  }

  tell(change) {
    for (const listener of [...this.listeners]) listener(change);
  }

  async load() {
    const found = await get("snapshot");
    this.loads += 1;
    this.about = found;
    this.number = found.number;
    this.summary = found.summary;
    this.nodes = new Map(found.nodes.map((values) => [values[0], asNode(values)]));
    delete found.nodes;
    this.tell({ changed: [], gone: [], whole: true });
  }

  apply(event) {
    const news = JSON.parse(event.data);
    this.number = event.id;
    this.news += 1;
    this.summary = news.summary;
    for (const row of news.gone) this.nodes.delete(row);
    const changed = news.nodes.map(asNode);
    for (const node of changed) this.nodes.set(node.row, node);
    this.tell({ changed, gone: news.gone, whole: false });
  }

  /** Follow the cluster for as long as the page lives; `status` is told "on", "off" or why not. */
  async follow(status) {
    let loaded = this.loads > 0;
    for (;;) {
      let again = false;
      try {
        if (!loaded) await this.load();
        loaded = true;
        status("on");
        for await (const event of events(this.number)) {
          if (event.type === "reset") { again = true; loaded = false; break; }
          this.apply(event);
        }
        if (!again) status("off");
      } catch (error) {
        status(error instanceof Refused ? error.message : "off");
      }
      // The server may be another one when it is back: its numbers then do not fit, and it asks for a new start.
      if (!again) await new Promise((resolve) => setTimeout(resolve, 1500));
    }
  }
}

export const store = new Store();

/** Run `work` now and whenever the version of a page rises, but not more often than every `pause` ms. */
export function whenNew(section, signal, pause, work) {
  let seen = null;
  let last = 0;
  let timer = 0;
  const run = async () => {
    timer = 0;
    last = Date.now();
    seen = store.summary?.versions[section];
    if (!signal.aborted) await work();
  };
  const look = () => {
    if (timer || store.summary?.versions[section] === seen) return;
    // What cannot be fetched now is fetched with the next change; that the server is gone is said at the top.
    timer = setTimeout(() => run().catch(() => { seen = null; }), Math.max(0, last + pause - Date.now()));
  };
  store.listen(look, signal);
  signal.addEventListener("abort", () => clearTimeout(timer));
  return run();
}
