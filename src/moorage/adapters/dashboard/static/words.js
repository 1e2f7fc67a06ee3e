// Numbers, times and amounts for people.

export const count = (n) => Number(n).toLocaleString("en");
export const percent = (share) => `${Math.round(share * 100)}%`;
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

export const cores = (milli) => (milli >= 10000 ? count(Math.round(milli / 1000)) : (milli / 1000).toFixed(milli % 1000 ? 1 : 0));

export function mebibytes(mib) {
  if (mib >= 1 << 20) return `${(mib / (1 << 20)).toFixed(1)} TiB`;
  return mib >= 1024 ? `${(mib / 1024).toFixed(mib >= 10240 ? 0 : 1)} GiB` : `${mib} MiB`;
}

export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
export const moment = (seconds) => new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const money = (micros, currency) => `${(micros / 1e6).toFixed(2)}${currency ? ` ${currency}` : ""}`;

export const requests = (amounts) => Object.entries(amounts).map(([name, text]) => `${name} ${text}`).join(", ") || "nothing";

export const PLACES = {
  active: "Active", backoff: "Backing off", unschedulable: "Unschedulable", gated: "Gated", inflight: "On its way",
};
export const PLACE_KINDS = { active: "good", backoff: "warn", unschedulable: "bad", gated: "", inflight: "good" };
export const CAPACITIES = ["capacity unknown", "spot", "on-demand"];
export const STATES = ["ready", "cordoned", "not ready", "leaving"];
