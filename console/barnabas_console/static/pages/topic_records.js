// The records of a topic: sought by place, time and filter, followed live, written (CON-113 to 116).
import { Fragment, h, useCallback, useEffect, useRef, useState } from "../vendor/vendor.js";
import { useKey } from "../keyboard.js";
import { PageCommand, commandLine } from "../parts/command.js";
import { Export } from "../parts/export.js";
import { ChangeButton } from "../parts/lock.js";
import { Empty, ErrorBox, Skeleton } from "../parts/notices.js";
import { StateBadge } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { choicesOf, useRecords } from "../records/reading.js";
import { RecordDrawer } from "../records/record_drawer.js";
import { FORMATS, originOf, placeOf } from "../records/record_facts.js";
import { RecordForm } from "../records/record_form.js";
import { ResendDialog } from "../records/resend_dialog.js";
import { useLocks } from "../rights.js";
import { setQuery } from "../router.js";
import { readOnly } from "../session.js";
import { bytes, clockTime, count, counted, moment, rate } from "../words.js";

/** @typedef {import("../records/record_facts.js").RecordRow} RecordRow */
/** @typedef {import("../records/reading.js").Wanted} Wanted */

const LETTERS_MAX = 500;

/** @param {{params: {topic: string}, query: Record<string, string>}} props */
export default function Records({ params: { topic }, query }) {
  const wanted = wantedOf(query);
  const [paused, setPaused] = useState(false);
  const { reading, refresh, halt, goOn } = useRecords(topic, wanted, { paused });
  const [form, setForm] = useState(/** @type {{like: RecordRow | null} | null} */ (null));
  const [letters, setLetters] = useState(/** @type {[number, number][] | null} */ (null));
  useKey(" ", useCallback(() => wanted.tail && setPaused((old) => !old), [wanted.tail]));
  const deadLetters = reading.rows.filter((row) => originOf(row) !== undefined && !row.is_masked).slice(0, LETTERS_MAX);
  const place = query["record"];
  const locks = useLocks({ topic });
  return h("div", { class: "records" },
    h(SeekBar, { topic, wanted, partitions: reading.partitions, refused: reading.failure?.error === "BAD_REQUEST", refresh },
      deadLetters.length > 0 && !readOnly.value && h("button", { type: "button", onClick: () => setLetters(deadLetters.map((row) => [row.partition, row.offset])) }, `Send ${counted(deadLetters.length, "dead letter")} back…`),
      h(ChangeButton, { lock: locks("produce"), command: commandLine("produce", topic), onClick: () => setForm({ like: null }) }, "Produce…")),
    reading.failure && h(ErrorBox, { failure: reading.failure, onRetry: refresh }),
    h(StatusLine, { reading, wanted, paused, setPaused, halt, goOn }),
    h(List, { topic, reading, wanted, place }),
    h(Below, { reading, wanted, goOn }),
    reading.rows.length > 0 && h(PageCommand, { text: commandOf(topic, wanted) }),
    place && h(RecordDrawer, {
      topic, place, formats: choicesOf({ ...wanted, partition: "", committed: "" }), onClose: () => setQuery({ record: null }),
      onAgain: (/** @type {RecordRow} */ row) => {
        setQuery({ record: null });
        setForm({ like: row });
      },
      onResend: (/** @type {RecordRow} */ row) => {
        setQuery({ record: null });
        setLetters([[row.partition, row.offset]]);
      },
    }),
    form && h(RecordForm, { topic, like: form.like, partitions: reading.partitions, onClose: () => setForm(null), onWritten: () => !wanted.tail && refresh() }),
    letters && h(ResendDialog, { topic, places: letters, onClose: () => setLetters(null), onSent: () => {} }));
}

/**
 * @param {Record<string, string>} query
 * @returns {Wanted}
 */
function wantedOf(query) {
  return {
    at: query["at"] ?? "newest",
    partition: query["partition"] ?? "",
    filter: query["filter"] ?? "",
    key_format: query["key_format"] ?? "",
    value_format: query["value_format"] ?? "",
    committed: query["committed"] ?? "",
    tail: query["tail"] === "1",
  };
}

/** @param {{topic: string, wanted: Wanted, partitions: number[], refused: boolean, refresh: () => void, children?: any}} props */
function SeekBar({ topic, wanted, partitions, refused, refresh, children }) {
  return h("div", { class: "seek", role: "search", "aria-label": "Records" },
    h(PlaceChoice, { wanted }),
    h(PartitionChoice, { wanted, partitions, refused }),
    h(FilterField, { wanted, refresh }),
    h("button", { type: "button", "aria-pressed": wanted.tail, class: wanted.tail ? "primary" : undefined, onClick: () => setQuery({ tail: wanted.tail ? null : "1", at: null }) }, wanted.tail ? "■ Stop tail" : "▶ Tail"),
    h(Export, { path: `topics/${encodeURIComponent(topic)}/export`, query: exported(wanted) }),
    h("span", { class: "seek-acts" }, children),
    h(Formats, { wanted }));
}

/**
 * One of a list, or a number where nothing was read that lists them: of a topic with more partitions than
 * are read at once.
 * @param {{wanted: Wanted, partitions: number[], refused: boolean}} props
 */
function PartitionChoice({ wanted, partitions, refused }) {
  /** @param {Event} event */
  const choose = (event) => setQuery({ partition: textOf(event).trim(), at: placeKept(wanted.at) });
  const typed = useRef(false);
  typed.current ||= partitions.length === 0 && refused;
  if (partitions.length === 0 && typed.current) {
    return h("input", { type: "number", class: "place", min: 0, step: 1, "aria-label": "Partition", placeholder: "Partition", value: wanted.partition, onChange: choose });
  }
  return h("select", { "aria-label": "Partition", value: wanted.partition, onChange: choose },
    h("option", { value: "" }, "all partitions"),
    (partitions.length ? partitions : wanted.partition ? [wanted.partition] : []).map((number) => h("option", { key: number, value: String(number) }, `partition ${number}`)));
}

/** @param {{wanted: Wanted}} props */
function PlaceChoice({ wanted }) {
  const kind = kindOf(wanted.at);
  const [chosen, setChosen] = useState(kind);
  useEffect(() => setChosen(kind), [kind]);
  const needsText = chosen === "offset" || chosen === "time";
  const text = kind === chosen && needsText ? wanted.at.slice(wanted.at.indexOf(":") + 1) : "";
  /** @param {Event} event */
  const choose = (event) => {
    const next = textOf(event);
    setChosen(next);
    if (next === "newest" || next === "oldest") setQuery({ at: next === "newest" ? null : next, tail: null });
  };
  return h(Fragment, null,
    h("select", { "aria-label": "Begin at", value: chosen, disabled: wanted.tail, onChange: choose },
      [["newest", "Newest"], ["oldest", "Oldest"], ["offset", "Offset…"], ["time", "Time…"]].map(([value, title]) => h("option", { key: value, value }, title)),
      chosen === "place" && h("option", { value: "place" }, "Where it went on")),
    needsText && h("input", {
      key: chosen, class: "place", autoFocus: true, defaultValue: text, "aria-label": chosen === "offset" ? "Offset" : "Time",
      placeholder: chosen === "offset" ? "88213, or -100 from the end" : "2h, or 2026-11-26T14:05",
      onChange: (/** @type {Event} */ event) => textOf(event) && setQuery({ at: `${chosen}:${textOf(event).trim()}`, tail: null }),
    }));
}

/** @param {{wanted: Wanted, refresh: () => void}} props */
function FilterField({ wanted, refresh }) {
  /** @type {import("../vendor/vendor.js").RefObject<HTMLInputElement | null>} */
  const field = useRef(null);
  useKey("/", useCallback(() => field.current?.select(), []));
  useEffect(() => {
    if (field.current) field.current.value = wanted.filter;
  }, [wanted.filter]);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    if (text === wanted.filter) refresh();
    else setQuery({ filter: text, at: placeKept(wanted.at) });
  };
  return h("form", { class: "filter-form", onSubmit: submit },
    h("input", { ref: field, type: "search", class: "filter mono", defaultValue: wanted.filter, placeholder: "json.amount>100 key=alice", spellcheck: false, autocomplete: "off", "aria-label": "Filter", title: FILTER_HELP,
      onInput: (/** @type {InputEvent} */ event) => textOf(event) === "" && wanted.filter && setQuery({ filter: null, at: placeKept(wanted.at) }) }),
    h("button", { type: "submit" }, wanted.filter || !wanted.tail ? "Search" : "Filter"));
}

const FILTER_HELP = "All terms must hold: key=alice value~refund header.trace=x json.items.0.price>100 partition=3 time>2h; a word alone is text in key or value";

/** @param {{wanted: Wanted}} props */
function Formats({ wanted }) {
  /** @param {"key_format" | "value_format"} name @param {string} title */
  const choice = (name, title) => h("label", null, h("span", { class: "muted" }, `${title} `),
    h("select", { value: wanted[name] || "auto", onChange: (/** @type {Event} */ event) => setQuery({ [name]: textOf(event) === "auto" ? null : textOf(event) }) },
      FORMATS.map(([value, words]) => h("option", { key: value, value }, words))));
  return h("details", { class: "formats", open: Boolean(wanted.key_format || wanted.value_format || wanted.committed) },
    h("summary", null, "Formats"),
    h("div", { class: "formats-inner" },
      choice("key_format", "Keys"), choice("value_format", "Values"),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: wanted.committed === "1", onChange: () => setQuery({ committed: wanted.committed === "1" ? null : "1" }) }), "Committed transactions only")));
}

/** Where an export begins: a place that was chosen; else the oldest. @param {Wanted} wanted */
function exported(wanted) {
  /** @type {Record<string, string>} */
  const at = kindOf(wanted.at) === "offset" || kindOf(wanted.at) === "time" ? { at: wanted.at } : {};
  return { ...choicesOf(wanted), ...at, ...(wanted.filter ? { filter: wanted.filter } : {}) };
}

/** @param {{reading: import("../records/reading.js").Reading, wanted: Wanted, paused: boolean, setPaused: (paused: boolean) => void, halt: () => void, goOn: () => void}} props */
function StatusLine({ reading, wanted, paused, setPaused, halt }) {
  const { tail, busy, read, ended } = reading;
  if (wanted.tail && reading.failure) return null;
  if (wanted.tail) {
    const shown = tail && tail.perSecond > tail.shownPerSecond + 1 ? `${count(tail.shownPerSecond)} of ${rate(tail.perSecond)}` : rate(tail?.perSecond ?? 0);
    return h("p", { class: "reading-status" },
      ended ? h(StateBadge, { state: "critical" }, ended) : h(StateBadge, { state: paused ? "unknown" : "working" }, paused ? `paused, ${counted(tail?.held ?? 0, "record")} held` : tail === null ? "going to the end" : "live"),
      tail !== null && h("span", null, shown),
      tail !== null && tail.missed > 0 && h("span", { class: "warning" }, `${counted(tail.missed, "record")} missed: too fast for this page`),
      !ended && h("button", { type: "button", class: "quiet", onClick: () => setPaused(!paused) }, paused ? "Go on" : "Pause", " ", h("kbd", null, "Space")));
  }
  if (!wanted.filter || !busy) return h("p", { class: "reading-status", role: "status" }, !busy && read && summaryOf(reading, wanted));
  return h("p", { class: "reading-status", role: "status" },
    h(StateBadge, { state: "working" }, "searching"),
    read && h("span", null, `${count(read.records)} records, ${bytes(read.bytes)}${reachedWords(read)}`),
    h("button", { type: "button", class: "quiet", onClick: halt }, "Stop"));
}

/**
 * @param {import("../records/reading.js").Reading} reading
 * @param {Wanted} wanted
 */
function summaryOf(reading, wanted) {
  const { read, rows } = reading;
  if (!read) return null;
  return h(Fragment, null,
    wanted.filter ? h("span", null, `${counted(rows.length, "record")} of ${count(read.records)} read${read.left > 0 ? ` of ≤ ${count(read.records + read.left)}` : ""}, ${bytes(read.bytes)}${reachedWords(read)}`) : null,
    read.tooLarge > 0 && h("span", { class: "warning" }, `${counted(read.tooLarge, "value")} too large to look into`),
    read.problems.map(({ partition, message }) => h(StateBadge, { key: partition, state: "warning" }, `partition ${partition} is not read: ${message}`)));
}

/** @param {import("../records/reading.js").Read} read */
function reachedWords(read) {
  return read.reachedMs !== null && read.reachedMs >= 0 ? `, to ${moment(read.reachedMs).slice(0, 19)}` : "";
}

/** @param {{topic: string, reading: import("../records/reading.js").Reading, wanted: Wanted, place: string | undefined}} props */
function List({ topic, reading, wanted, place }) {
  const { rows, busy, failure, ended } = reading;
  if (rows.length === 0) {
    if (failure) return null;
    if (wanted.tail) return h(Empty, { title: "Nothing has come yet", command: commandLine("produce", topic) });
    if (busy) return wanted.filter ? null : h(Skeleton, { rows: 10 });
    if (ended !== "all read") return null;
    return wanted.filter
      ? h(Empty, { title: "No record passes the filter" }, "All of the range was read.")
      : h(Empty, { title: "No records there", command: commandLine("produce", topic) });
  }
  return h(Table, {
    label: `Records of ${topic}`, columns: columnsOf(rows), source: { total: rows.length, row: (/** @type {number} */ index) => rows[index] }, keyOf: placeOf,
    selected: place ?? null, onOpen: (/** @type {RecordRow} */ row) => setQuery({ record: placeOf(row) }, { replace: false }),
  });
}

/** @param {{reading: import("../records/reading.js").Reading, wanted: Wanted, goOn: () => void}} props */
function Below({ reading, wanted, goOn }) {
  const { busy, goOn: place, newestFirst, read, rows } = reading;
  if (wanted.tail || busy || !read) return null;
  if (!place) return rows.length > 0 ? h("p", { class: "reading-end muted" }, wanted.filter ? "All of the range was read." : newestFirst ? "These are the oldest records." : "These are the newest records.") : null;
  return h("p", { class: "reading-end" },
    h("button", { type: "button", onClick: goOn }, wanted.filter ? "Go on" : newestFirst ? "Older" : "Newer"),
    read.left > 0 && h("span", { class: "muted" }, `≤ ${count(read.left)} more`));
}

/**
 * @param {RecordRow[]} rows
 * @returns {import("../parts/table.js").Column<RecordRow>[]}
 */
function columnsOf(rows) {
  const days = new Set([rows[0], rows.at(-1)].map((row) => moment(row?.timestamp_ms ?? 0).slice(0, 10)));
  const today = moment(Date.now()).slice(0, 10);
  const withDay = days.size > 1 || !days.has(today);
  return [
    { key: "timestamp_ms", title: "Time", width: withDay ? 192 : 120, cell: (row) => (row.timestamp_ms < 0 ? "no time" : withDay ? moment(row.timestamp_ms) : clockTime(row.timestamp_ms)) },
    { key: "partition", title: "P", hint: "Partition", numeric: true, width: 48, line: 1, cell: (row) => String(row.partition) },
    { key: "offset", title: "Offset", numeric: true, width: 112, line: 1, cell: (row) => String(row.offset) },
    { key: "key", title: "Key", width: 160, bare: true, cell: (row) => h(Content, { text: row.key, format: row.key_format }) },
    { key: "value", title: "Value", bare: true, cell: (row) => h(Content, { text: row.value, format: row.value_format, isValue: true }) },
  ];
}

/** @param {{text: string | null, format: string, isValue?: boolean}} props */
function Content({ text, format, isValue = false }) {
  if (text === null) return h("span", { class: "muted" }, isValue ? "∅ tombstone" : "∅");
  if (text === "") return h("span", { class: "muted" }, "empty");
  return h("span", { class: `mono cell${format === "hex" || format === "masked" ? " muted" : ""}`, dir: "auto" }, text.slice(0, 400));
}

/** @param {string} at */
function kindOf(at) {
  const name = at.split(":")[0] ?? "";
  return ["newest", "oldest", "offset", "time"].includes(name) ? name : "place";
}

/** A cursor is of the partitions and the filter that it came from. @param {string} at */
function placeKept(at) {
  return kindOf(at) === "place" || at === "newest" ? null : at;
}

/**
 * @param {string} topic
 * @param {Wanted} wanted
 */
function commandOf(topic, { at, partition, filter, tail }) {
  const [kind, text] = [kindOf(at), at.slice(at.indexOf(":") + 1)];
  const place = tail ? ["--follow"] : kind === "offset" ? ["--offset", text] : kind === "time" ? ["--from-timestamp", text] : kind === "oldest" ? ["--from-beginning"] : ["--tail", "100"];
  return commandLine("consume", topic, [...place, ...(partition ? ["--partition", partition] : []), ...(filter ? ["--where", filter] : [])]);
}

/** @param {Event} event */
function textOf(event) {
  return /** @type {HTMLInputElement} */ (event.target).value;
}
