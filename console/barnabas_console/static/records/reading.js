// The records that the page shows, and how they come: pages, a scan by a filter, or a live tail.
import { useEffect, useRef, useState } from "../vendor/vendor.js";
import { ApiError, get, stream } from "../api.js";
import { byTime } from "./record_facts.js";

/** @typedef {import("./record_facts.js").RecordRow} RecordRow */

/**
 * What is asked for; `at` is a place as the API writes it.
 * @typedef {{at: string, partition: string, filter: string, key_format: string, value_format: string, committed: string, tail: boolean}} Wanted
 */

/**
 * What is there. `note` counts what was read; `goOn` reads on from there.
 * @typedef {{rows: RecordRow[], newestFirst: boolean, busy: boolean, failure: import("../api.js").Failure | null, read: Read | null,
 *   tail: TailCounts | null, older: string | null, newer: string | null, goOn: string | null, partitions: number[], ended: string | null}} Reading
 */

/** @typedef {{records: number, bytes: number, reachedMs: number | null, problems: {partition: number, message: string}[], tooLarge: number, left: number}} Read */
/** @typedef {{perSecond: number, shownPerSecond: number, missed: number, held: number}} TailCounts */

const PAGE_ROWS = 100;
const ROWS_MAX = 2_000;
const TAIL_ROWS_MAX = 500;
const PAINT_MS = 100;

/** @type {Reading} */
const NOTHING = { rows: [], newestFirst: true, busy: true, failure: null, read: null, tail: null, older: null, newer: null, goOn: null, partitions: [], ended: null };

/**
 * @param {string} topic
 * @param {Wanted} wanted
 * @param {{paused: boolean}} options a paused tail counts what comes and shows it later
 */
export function useRecords(topic, wanted, { paused }) {
  const [reading, setReading] = useState(NOTHING);
  const [again, setAgain] = useState(0);
  const stop = useRef(new AbortController());
  const isPaused = useRef(paused);
  isPaused.current = paused;
  const key = JSON.stringify([topic, wanted]);
  const shownKey = useRef("");

  /**
   * @param {string | null} at
   * @param {RecordRow[]} before rows that stay
   */
  const begin = (at, before) => {
    stop.current.abort();
    const aborter = (stop.current = new AbortController());
    const base = { topic, wanted: at === null ? wanted : { ...wanted, at }, before, signal: aborter.signal };
    /** @param {(old: Reading) => Partial<Reading>} change */
    const update = (change) => {
      if (!aborter.signal.aborted) setReading((old) => ({ ...old, ...change(old) }));
    };
    // What is read anew stays until the new is there.
    const stays = at === null && shownKey.current === key;
    shownKey.current = key;
    update((old) => ({ ...NOTHING, rows: stays ? old.rows : before, partitions: old.partitions }));
    const work = wanted.tail ? follow(base, update, isPaused) : wanted.filter ? scan(base, update) : page(base, update);
    work.catch((error) => {
      if (aborter.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      update(() => ({ busy: false, failure: error.failure }));
    });
  };
  useEffect(() => {
    begin(null, []);
    return () => stop.current.abort();
  }, [key, again]);
  return {
    reading,
    refresh: () => setAgain(again + 1),
    halt: () => {
      stop.current.abort();
      setReading((old) => ({ ...old, busy: false, ended: "stopped" }));
    },
    goOn: () => begin(reading.goOn, reading.rows.slice(-ROWS_MAX + PAGE_ROWS)),
  };
}

/**
 * @typedef {{topic: string, wanted: Wanted, before: RecordRow[], signal: AbortSignal}} Task
 * @typedef {(change: (old: Reading) => Partial<Reading>) => void} Update
 */

/**
 * @param {Task} task
 * @param {Update} update
 */
async function page({ topic, wanted, before, signal }, update) {
  const query = new URLSearchParams({ ...choicesOf(wanted), at: wanted.at, limit: String(PAGE_ROWS) });
  const found = await get(`topics/${encodeURIComponent(topic)}/records?${query}`, { signal });
  const newestFirst = found.direction === "backwards";
  update((old) => ({
    rows: [...before, ...found.rows],
    newestFirst,
    busy: false,
    older: found.older,
    newer: found.newer,
    goOn: newestFirst ? found.older : found.is_end ? null : found.newer,
    read: { records: found.rows.length, bytes: found.bytes_read, reachedMs: found.rows.at(-1)?.timestamp_ms ?? null, problems: found.problems, tooLarge: 0, left: leftOf(found.ranges) },
    partitions: wanted.partition ? old.partitions : found.ranges.map((/** @type {any} */ range) => range.partition),
    ended: found.is_end ? "all read" : null,
  }));
}

/**
 * @param {Task} task
 * @param {Update} update
 */
async function scan({ topic, wanted, before, signal }, update) {
  const newestFirst = wanted.at === "newest" || wanted.at.startsWith("older:");
  let rows = before;
  /** @type {RecordRow[]} */
  let fresh = [];
  let timer = 0;
  const paint = () => {
    timer = 0;
    rows = byTime([...rows, ...fresh], newestFirst);
    fresh = [];
    update(() => ({ rows, newestFirst }));
  };
  await stream(`topics/${encodeURIComponent(topic)}/scan`, (name, data) => {
    if (name === "record") {
      fresh.push(data);
      timer ||= setTimeout(paint, PAINT_MS);
      return;
    }
    /** @type {Read} */
    const read = { records: data.record_count, bytes: data.bytes_read, reachedMs: data.reached_ms, problems: data.problems ?? [], tooLarge: data.too_large, left: leftOf(data.ranges ?? []) };
    if (name === "error") {
      update(() => ({ busy: false, failure: { status: 0, ...data } }));
      return;
    }
    if (name === "progress") update(() => ({ read }));
    if (name === "end") {
      clearTimeout(timer);
      paint();
      update((old) => ({ read, busy: false, goOn: data.go_on, ended: data.reason, partitions: wanted.partition ? old.partitions : data.ranges.map((/** @type {any} */ range) => range.partition) }));
    }
  }, { method: "POST", body: { ...choicesOf(wanted), at: wanted.at, filter: wanted.filter, limit: PAGE_ROWS }, signal });
}

/**
 * @param {Task} task
 * @param {Update} update
 * @param {{current: boolean}} paused
 */
async function follow({ topic, wanted, signal }, update, paused) {
  /** @type {RecordRow[]} */
  let rows = [];
  /** @type {RecordRow[]} */
  let fresh = [];
  /** @type {{at: number, came: number, shown: number}[]} */
  let lately = [];
  let missed = 0;
  let begun = false;
  const paint = () => {
    // The first event says that the stream stands at the end: before it nothing is live.
    if (!begun) return;
    if (!paused.current) {
      rows = [...fresh.reverse(), ...rows].slice(0, TAIL_ROWS_MAX);
      fresh = [];
    } else fresh = fresh.slice(-TAIL_ROWS_MAX);
    const now = Date.now();
    lately = lately.filter(({ at }) => now - at < 3_000);
    const seconds = Math.max(1, (now - (lately[0]?.at ?? now)) / 1_000);
    const sum = (/** @type {"came" | "shown"} */ name) => lately.reduce((total, one) => total + one[name], 0) / seconds;
    update(() => ({ rows, newestFirst: true, busy: true, tail: { perSecond: sum("came"), shownPerSecond: sum("shown"), missed, held: fresh.length } }));
  };
  const timer = setInterval(paint, PAINT_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  try {
    await stream(`topics/${encodeURIComponent(topic)}/tail?${new URLSearchParams({ ...choicesOf(wanted), filter: wanted.filter })}`, (name, data) => {
      if (name === "record") fresh.push(data);
      begun = true;
      if (name === "progress") {
        lately.push({ at: Date.now(), came: data.came, shown: data.shown });
        missed += data.missed;
      }
      if (name === "end" || name === "error") update(() => ({ ended: data.message }));
    }, { signal });
  } finally {
    clearInterval(timer);
  }
  paint();
  update(() => ({ busy: false }));
}

/** @param {Wanted} wanted */
export function choicesOf({ partition, key_format, value_format, committed }) {
  return Object.fromEntries(Object.entries({ partition, key_format, value_format, committed }).filter(([, value]) => value !== ""));
}

/**
 * How many offsets of the ranges were not read: each may be a record.
 * @param {{start: number, end: number, read_from: number, read_to: number}[]} ranges
 */
function leftOf(ranges) {
  return ranges.reduce((total, { start, end, read_from: from, read_to: to }) => total + (end - start) - (to - from), 0);
}
