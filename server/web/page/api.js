// Requests to the server. The API key is kept here: in memory, or in the tab's session storage if the user says so.

const slot = "runner.key";
let key = read();

function read() {
  try {
    return sessionStorage.getItem(slot) ?? "";
  } catch {
    return "";
  }
}

export function setKey(text, keep) {
  key = text;
  try {
    if (keep && text) sessionStorage.setItem(slot, text);
    else sessionStorage.removeItem(slot);
  } catch {
    /* it is in memory */
  }
}

export const hasKey = () => key !== "";

// Failure is an answer that is an error. Its code is the server's, or "connection" if there was no answer.
export class Failure extends Error {
  constructor(code, message, status = 0) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

async function call(path, body, signal) {
  const headers = { Accept: body === undefined ? "application/json" : "application/json, text/event-stream" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      signal,
      cache: "no-store",
      credentials: "omit",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("connection", "The server cannot be reached. Try again when it is back.");
  }
  if (answer.ok) return answer;
  let what = {};
  try {
    what = await answer.json();
  } catch {
    /* not ours */
  }
  throw new Failure(
    String(what.code ?? answer.status),
    String(what.message ?? `The server answered ${answer.status}.`),
    answer.status,
  );
}

export const get = async (path) => (await call(path)).json();
export const post = async (path, body) => (await call(path, body)).json();

// stream sends a request and calls take with each event of the answer. It fails if the answer breaks off.
export async function stream(path, body, signal, take) {
  const reader = (await call(path, body, signal)).body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let over = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rest += decoder.decode(value, { stream: true });
      for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
        const frame = rest.slice(0, end);
        if (!frame.startsWith("data: ")) continue;
        const event = JSON.parse(frame.slice(6));
        over ||= event.type === "done" || event.type === "error";
        take(event);
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("connection", "The connection was lost before the answer was complete.");
  }
  if (!over) throw new Failure("connection", "The connection was lost before the answer was complete.");
}
