// Requests to the console's own server: one at a time, polled with ETags, or as a stream of events.
//
// Only visible tabs poll (CON-160). What was read once is shown at once when a page comes back, greyed
// with its age when it could not be read anew (CON-153).
import { signal, useEffect, useMemo } from "./vendor/vendor.js";
import { browserId } from "./preferences.js";
import { base, ownCluster } from "./router.js";

/**
 * What went wrong, in words for people: the server's own, or ours where it did not answer.
 * @typedef {{status: number, error: string, message: string, hint?: string, broker?: string | number | null, lock?: import("./rights.js").Lock}} Failure
 */

/** Thrown by every request that did not give what was asked for. */
export class ApiError extends Error {
  /** @param {Failure} failure */
  constructor(failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** @type {Failure} */
const UNREACHABLE = {
  status: 0,
  error: "console_unreachable",
  message: "The console does not answer.",
  hint: "It may have been stopped. Start it again: barnabas console",
};

/** @type {Failure} */
const LOST = {
  status: 0,
  error: "console_lost",
  message: "The connection to the console is lost.",
  hint: "It may have been stopped. What came until then stays.",
};

/**
 * What went wrong with something that must not be done twice: where nobody answered, it may have been done.
 * @param {Failure} failure
 * @param {string} hint
 * @returns {Failure}
 */
export function inDoubt(failure, hint) {
  return failure.status === 0 ? { ...failure, hint } : failure;
}

/** Whether the last session has ended, or there was none. */
export const loginNeeded = signal(false);

/** @param {string} path without `api/v1/` */
export function apiPath(path) {
  return `${base}api/v1/${path}`;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>}
 */
async function send(method, path, { body, headers, signal: aborted } = {}) {
  let response;
  try {
    response = await fetch(apiPath(path), {
      method,
      cache: "no-store",
      credentials: "same-origin",
      signal: aborted ?? null,
      headers: {
        "X-Barnabas-Console": "1",
        "X-Barnabas-Browser": browserId.value,
        // A forwarded port may lead to the console of another cluster by now: it refuses this page.
        ...(ownCluster.peek() ? { "X-Barnabas-Cluster": encodeURIComponent(ownCluster.peek()) } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch (error) {
    if (aborted?.aborted) throw error;
    throw new ApiError(UNREACHABLE);
  }
  if (response.ok || response.status === 304) return response;
  throw new ApiError(await failureOf(response));
}

/** @param {Response} response */
async function failureOf(response) {
  /** @type {Failure} */
  const failure = { status: response.status, error: "http", message: `The console answered ${response.status}.` };
  try {
    Object.assign(failure, await response.json(), { status: response.status });
  } catch {
    // Not ours: a proxy between.
  }
  if (failure.error === "LOGIN_REQUIRED") loginNeeded.value = true;
  return failure;
}

/**
 * @param {string} path
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function get(path, options) {
  return (await send("GET", path, options)).json();
}

/**
 * @param {string} path
 * @param {unknown} body
 * @param {{method?: string, signal?: AbortSignal}} [options]
 * @returns {Promise<any>} null where the answer has no body
 */
export async function post(path, body, { method = "POST", signal: aborted } = {}) {
  const response = await send(method, path, { body, ...(aborted ? { signal: aborted } : {}) });
  return response.status === 204 ? null : response.json();
}

/**
 * Events of a stream, until it ends: `onEvent("record", {...})` (CON-160).
 * @param {string} path
 * @param {(name: string, data: any) => void} onEvent
 * @param {{method?: string, body?: unknown, signal?: AbortSignal}} [options]
 */
export async function stream(path, onEvent, { method = "GET", body, signal: aborted } = {}) {
  const response = await send(method, path, {
    body,
    headers: { Accept: "text/event-stream" },
    ...(aborted ? { signal: aborted } : {}),
  });
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      if (aborted?.aborted) throw error;
      throw new ApiError(LOST);
    });
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) deliver(event, onEvent);
  }
}

/**
 * @param {string} event one event's lines
 * @param {(name: string, data: any) => void} onEvent
 */
function deliver(event, onEvent) {
  let name = "message";
  let data = "";
  for (const line of event.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5).trim();
  }
  if (data) onEvent(name, JSON.parse(data));
}

/**
 * What is known about one polled path. `failure` beside `data`: the data is old.
 * @template T
 * @typedef {{data: T | null, failure: Failure | null, readAtMs: number, waiting: boolean}} Polled
 */

const KEPT_MAX = 60;
/** @type {Map<string, Poller>} */
const pollers = new Map();

/** Reads one path again and again while somebody looks at it. */
class Poller {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
    /** @type {import("./vendor/vendor.js").Signal<Polled<any>>} */
    this.state = signal({ data: null, failure: null, readAtMs: 0, waiting: true });
    this.etag = "";
    this.intervalMs = 3_000;
    this.watchers = 0;
    this.timer = 0;
    /** @type {Promise<void> | null} */
    this.reading = null;
    this.again = false;
  }

  /** @param {number} intervalMs */
  watch(intervalMs) {
    this.intervalMs = intervalMs;
    this.watchers += 1;
    if (this.watchers === 1) void this.read();
    return () => {
      this.watchers -= 1;
      if (this.watchers === 0) clearTimeout(this.timer);
    };
  }

  /** Read now; a read under way is followed by another one. */
  read() {
    clearTimeout(this.timer);
    if (this.reading) {
      this.again = true;
      return this.reading;
    }
    this.reading = this.#readOnce().finally(() => {
      this.reading = null;
      if (this.again) {
        this.again = false;
        void this.read();
      } else this.#schedule();
    });
    return this.reading;
  }

  #schedule() {
    if (this.watchers === 0 || document.hidden) return;
    this.timer = setTimeout(() => void this.read(), this.intervalMs);
  }

  async #readOnce() {
    const before = this.state.peek();
    try {
      const response = await send("GET", this.path, { headers: this.etag ? { "If-None-Match": this.etag } : {} });
      const unchanged = response.status === 304;
      const data = unchanged ? before.data : await response.json();
      this.etag = response.headers.get("ETag") ?? "";
      // What did not change is not painted again.
      if (unchanged && !before.failure) before.readAtMs = Date.now();
      else this.state.value = { data, failure: null, readAtMs: Date.now(), waiting: false };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.state.value = { ...before, failure: error.failure, waiting: false };
    }
  }
}

/** @param {string} path */
function pollerOf(path) {
  let poller = pollers.get(path);
  if (poller) pollers.delete(path);
  else poller = new Poller(path);
  // The latest used is the last of the map; idle ones at its front go first.
  pollers.set(path, poller);
  for (const [old, other] of pollers) {
    if (pollers.size <= KEPT_MAX) break;
    if (other.watchers === 0 && other !== poller) pollers.delete(old);
  }
  return poller;
}

/**
 * The answer of a path, read every `intervalMs` while the tab is visible.
 * @template [T=any]
 * @param {string | null} path null reads nothing
 * @param {{intervalMs?: number}} [options]
 * @returns {Polled<T> & {refresh: () => void}}
 */
export function usePolled(path, { intervalMs = 3_000 } = {}) {
  const poller = useMemo(() => pollerOf(path ?? ""), [path]);
  useEffect(() => (path === null ? undefined : poller.watch(intervalMs)), [poller, intervalMs, path]);
  return { ...poller.state.value, refresh: () => void poller.read() };
}

/** Read everything on the screen now: after a change of ours. */
export function refreshAll() {
  for (const poller of pollers.values()) if (poller.watchers > 0) void poller.read();
}

/**
 * Begin to read a path before its page asks for it.
 * @param {string} path
 */
export function prefetch(path) {
  const poller = pollerOf(path);
  if (poller.state.peek().waiting && !poller.reading) void poller.read();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refreshAll();
});
