// One record, whole: where it is, its headers, key and value as a tree, text or bytes.
import { Fragment, h, useEffect, useState } from "../vendor/vendor.js";
import { ApiError, get } from "../api.js";
import { commandLine } from "../parts/command.js";
import { Copy } from "../parts/copy.js";
import { Drawer } from "../parts/dialog.js";
import { Download } from "../parts/download.js";
import { ChangeButton } from "../parts/lock.js";
import { ErrorBox, Skeleton } from "../parts/notices.js";
import { useLocks } from "../rights.js";
import { readOnly } from "../session.js";
import { bytes, count, moment } from "../words.js";
import { JsonTree } from "./json_tree.js";
import { parseJson } from "./json_value.js";
import { originOf } from "./record_facts.js";

/** @typedef {import("./record_facts.js").RecordRow} RecordRow */

/**
 * @param {{topic: string, place: string, formats: Record<string, string>, onClose: () => void, onAgain: (row: RecordRow) => void, onResend: (row: RecordRow) => void}} props
 */
export function RecordDrawer({ topic, place, formats, onClose, onAgain, onResend }) {
  const { row, failure } = useRecord(topic, place, formats);
  return h(Drawer, { title: h(Fragment, null, `${topic} `, h("span", { class: "muted" }, place)), onClose },
    failure ? h(ErrorBox, { failure }) : row ? h(Whole, { row, onAgain, onResend }) : h(Skeleton, { rows: 8 }));
}

/**
 * @param {string} topic
 * @param {string} place
 * @param {Record<string, string>} formats
 */
function useRecord(topic, place, formats) {
  const [found, setFound] = useState(/** @type {{row: RecordRow | null, failure: import("../api.js").Failure | null}} */ ({ row: null, failure: null }));
  const path = `${recordPath(topic, place)}?${new URLSearchParams(formats)}`;
  useEffect(() => {
    const aborter = new AbortController();
    setFound({ row: null, failure: null });
    get(path, { signal: aborter.signal }).then(
      (row) => setFound({ row, failure: null }),
      (error) => {
        if (error instanceof ApiError) setFound({ row: null, failure: error.failure });
      });
    return () => aborter.abort();
  }, [path]);
  return found;
}

/**
 * @param {string} topic
 * @param {string} place
 */
function recordPath(topic, place) {
  return `topics/${encodeURIComponent(topic)}/records/${place.replace(":", "/")}`;
}

/** @param {{row: RecordRow, onAgain: (row: RecordRow) => void, onResend: (row: RecordRow) => void}} props */
function Whole({ row, onAgain, onResend }) {
  const [failure, setFailure] = useState(/** @type {import("../api.js").Failure | null} */ (null));
  const again = () => writable(row).then(onAgain, (error) => {
    if (!(error instanceof ApiError)) throw error;
    setFailure(error.failure);
  });
  const origin = originOf(row);
  const locks = useLocks({ topic: row.topic });
  return h("div", { class: "record" },
    h("dl", { class: "record-facts" }, factsOf(row).map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value)))),
    h(Side, { row, side: "key", title: "Key" }),
    h(Side, { row, side: "value", title: "Value" }),
    row.headers.length > 0 && h("section", null, h("h3", null, "Headers"),
      h("dl", { class: "headers mono" }, row.headers.map(([name, text], index) => h("div", { key: index }, h("dt", null, name), h("dd", null, text ?? h("span", { class: "muted" }, "null")))))),
    failure && h(ErrorBox, { failure }),
    h("footer", { class: "actions" },
      !readOnly.value && !row.is_masked && h(ChangeButton, { lock: locks("produce"), onClick: () => void again() }, "Produce again…"),
      !readOnly.value && !row.is_masked && origin && h("button", { type: "button", class: "primary", onClick: () => onResend(row) }, `Send back to ${origin}…`)),
    h(Copy, { text: commandLine("consume", row.topic, ["--partition", String(row.partition), "--offset", String(row.offset), "--max-records", "1", "--format", "json"]) }));
}

/**
 * The record as it can be written again: what is shown decoded, a number or by a schema, by its bytes.
 * @param {RecordRow} row
 * @returns {Promise<RecordRow>}
 */
async function writable(row) {
  const decoded = SIDES.filter((side) => !AS_STORED.has(row[`${side}_format`]));
  if (decoded.length === 0) return row;
  const stored = await get(`${recordPath(row.topic, `${row.partition}:${row.offset}`)}?${new URLSearchParams(HEX)}`);
  return Object.assign({}, row, ...decoded.map((side) => ({ [side]: stored[side], [`${side}_format`]: "hex" })));
}

/** @type {("key" | "value")[]} */
const SIDES = ["key", "value"];
/** Formats whose text is what stands in the bytes. */
const AS_STORED = new Set(["null", "text", "json", "hex"]);

/**
 * @param {RecordRow} row
 * @returns {[string, any][]}
 */
function factsOf(row) {
  /** @type {[string, any][]} */
  const facts = [
    ["Partition", String(row.partition)],
    ["Offset", count(row.offset)],
    [row.timestamp_type === "append" ? "Time, by the broker" : "Time", row.timestamp_ms < 0 ? "none" : moment(row.timestamp_ms)],
    ["Leader epoch", String(row.leader_epoch)],
  ];
  if (row.producer_id !== null) facts.push(["Producer", `${row.producer_id}, epoch ${row.producer_epoch}`]);
  if (row.is_transactional) facts.push(["Transaction", "yes"]);
  return facts;
}

/** @param {{row: RecordRow, side: "key" | "value", title: string}} props */
function Side({ row, side, title }) {
  const text = row[side];
  const format = row[`${side}_format`];
  const parsed = text !== null && JSON_FORMATS.has(format) ? parseJson(text) : null;
  const [how, setHow] = useState("tree");
  const shown = parsed === null && how === "tree" ? "text" : how;
  const words = [format, bytes(row[`${side}_bytes`])];
  if (row[`${side}_schema_id`] !== null) words.push(`schema ${row[`${side}_schema_id`]}`);
  return h("section", null,
    h("div", { class: "side-head" },
      h("h3", null, title),
      h("span", { class: "muted" }, words.join(", ")),
      text !== null && h("span", { class: "push" },
        !row.is_masked && h(Views, { label: `${title} as`, views: parsed ? ["tree", "text", "hex"] : ["text", "hex"], shown, onChoose: setHow }),
        h(Copy, { text, label: "Copy" }),
        !row.is_masked && h(Download, { path: `${recordPath(row.topic, `${row.partition}:${row.offset}`)}?raw=${side}` }, "Download"))),
    row[`${side}_problem`] && h("p", { class: "warning" }, row[`${side}_problem`]),
    text === null ? h("p", { class: "muted" }, side === "value" ? "∅ tombstone: the value is null" : "∅ null")
      : shown === "tree" && parsed ? h(JsonTree, { value: parsed.value })
      : shown === "hex" ? h(Hex, { row, side })
      : h("pre", { class: "content" }, text),
    row[`${side}_is_cut`] && h("p", { class: "muted" }, "Cut here: download it to have all."));
}

const JSON_FORMATS = new Set(["json", "msgpack", "avro", "protobuf", "internal", "text"]);

/** @param {{label: string, views: string[], shown: string, onChoose: (view: string) => void}} props */
function Views({ label, views, shown, onChoose }) {
  return h("span", { class: "views", role: "group", "aria-label": label }, views.map((view) =>
    h("button", { key: view, type: "button", class: "quiet", "aria-pressed": shown === view, onClick: () => onChoose(view) }, view)));
}

/** The bytes: sixteen a line. @param {{row: RecordRow, side: "key" | "value"}} props */
function Hex({ row, side }) {
  const { row: found, failure } = useRecord(row.topic, `${row.partition}:${row.offset}`, HEX);
  if (failure) return h(ErrorBox, { failure });
  if (!found) return h(Skeleton, { rows: 3 });
  return h("pre", { class: "content" }, hexLines((found[side] ?? "").slice(0, HEX_DIGITS_MAX)));
}

const HEX = { key_format: "hex", value_format: "hex" };
const HEX_DIGITS_MAX = 32 * 2_000;

/** @param {string} digits */
function hexLines(digits) {
  const lines = [];
  for (let at = 0; at < digits.length; at += 32) {
    const pairs = digits.slice(at, at + 32).match(/../g) ?? [];
    const text = pairs.map((pair) => {
      const code = parseInt(pair, 16);
      return code >= 32 && code < 127 ? String.fromCharCode(code) : "·";
    }).join("");
    lines.push(`${(at / 2).toString(16).padStart(6, "0")}  ${pairs.join(" ").padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}
