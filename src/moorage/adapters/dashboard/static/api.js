// Requests to the server. The token after the # of the address, which browsers do not send, goes into a header, and out of
// the address at once.

const KEY = "moorage-token";

function takeToken() {
  const found = /(?:^#|[?&])token=([A-Za-z0-9_-]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", `${location.pathname}#/map`);
  }
  return sessionStorage.getItem(KEY) ?? "";
}

const token = takeToken();
export const hasToken = token !== "";
const headers = hasToken ? { "X-Moorage-Token": token } : {};

export class Refused extends Error {}

async function answered(response) {
  if (response.ok) return response.json();
  let text = `${response.status} ${response.statusText}`;
  try { text = (await response.json()).error ?? text; } catch { /* no JSON: the status has to do */ }
  throw new Refused(text);
}

export const get = async (path, query = {}) => answered(await fetch(`/api/${path}?${new URLSearchParams(query)}`, { headers }));

export const post = async (path, body) => answered(await fetch(`/api/${path}`, {
  method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body),
}));

/** Server-sent events over fetch, as EventSource cannot send the token. Ends when the connection does. */
export async function* events(since, signal) {
  const response = await fetch(`/api/events?since=${since}`, { headers, signal });
  if (!response.ok) throw new Refused(`${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const event = { type: "", data: "", id: null };
      for (const line of rest.slice(0, end).split("\n")) {
        if (line.startsWith("event: ")) event.type = line.slice(7);
        else if (line.startsWith("data: ")) event.data = line.slice(6);
        else if (line.startsWith("id: ")) event.id = Number(line.slice(4));
      }
      rest = rest.slice(end + 2);
      if (event.type) yield event;
    }
  }
}
