// The form that writes a record: new, or one that was there, again.
import { h, useState } from "../vendor/vendor.js";
import { ApiError, inDoubt, post } from "../api.js";
import { Dialog } from "../parts/dialog.js";
import { ErrorBox } from "../parts/notices.js";
import { StateBadge } from "../parts/state.js";
import { href } from "../router.js";

/** @typedef {import("./record_facts.js").RecordRow} RecordRow */

const FORMATS = [["text", "text"], ["json", "JSON"], ["hex", "hex"], ["base64", "file"], ["null", "null"]];

/** @param {{topic: string, like: RecordRow | null, partitions: number[], onClose: () => void, onWritten: () => void}} props */
export function RecordForm({ topic, like, partitions, onClose, onWritten }) {
  const [form, setForm] = useState(() => startOf(like));
  const [state, setState] = useState(/** @type {{busy: boolean, failure: import("../api.js").Failure | null, written: any}} */ ({ busy: false, failure: null, written: null }));
  /** @param {Partial<typeof form>} change */
  const change = (change) => setForm((old) => ({ ...old, ...change }));
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (state.busy) return;
    setState({ busy: true, failure: null, written: null });
    try {
      const written = await post(`topics/${encodeURIComponent(topic)}/records`, await bodyOf(form));
      setState({ busy: false, failure: null, written });
      onWritten();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const failure = inDoubt(error.failure, "The record may be written: look at the end of the topic before you produce it again.");
      setState({ busy: false, failure, written: null });
    }
  };
  return h(Dialog, { title: `Produce to ${topic}`, onClose, wide: true },
    h("form", { class: "record-form", onSubmit: submit },
      h(SideField, { name: "key", title: "Key", rows: 1, form, change }),
      h(SideField, { name: "value", title: "Value", rows: 8, form, change }),
      h("label", { class: "field" }, h("span", null, "Headers, a line each: name=value"),
        h("textarea", { rows: 2, value: form.headers, spellcheck: false, onInput: (/** @type {InputEvent} */ event) => change({ headers: textOf(event) }) })),
      form.kept.length > 0 && h("ul", { class: "kept-headers mono", "aria-label": "Headers that are kept as they are" }, form.kept.map((one) =>
        h("li", { key: one.at }, h("span", null, keptWords(one)),
          h("button", { type: "button", class: "quiet", "aria-label": `Leave out ${one.header[0]}`, onClick: () => change({ kept: withoutOne(form.kept, one) }) }, "Leave out")))),
      h("div", { class: "field-row" },
        h("label", { class: "field" }, h("span", null, "Partition"),
          h("select", { value: form.partition, onChange: (/** @type {Event} */ event) => change({ partition: textOf(event) }) },
            h("option", { value: "" }, "by the key"), partitions.map((number) => h("option", { key: number, value: String(number) }, number)))),
        h("label", { class: "field" }, h("span", null, "Time, in milliseconds"),
          h("input", { value: form.timestamp, inputMode: "numeric", pattern: "[0-9]*", placeholder: "now", onInput: (/** @type {InputEvent} */ event) => change({ timestamp: textOf(event) }) }))),
      state.failure && h(ErrorBox, { failure: state.failure }),
      h("div", { role: "status" }, state.written && h(StateBadge, { state: "fine" }, "Written at ",
        h("a", { href: href(["topics", topic, "records"], { record: `${state.written.partition}:${state.written.offset}`, at: `offset:${state.written.offset}`, partition: state.written.partition }), onClick: onClose }, `${state.written.partition}:${state.written.offset}`))),
      h("footer", { class: "actions" },
        h("button", { type: "button", onClick: onClose }, "Close"),
        h("button", { type: "submit", class: "primary", "aria-disabled": state.busy }, state.written ? "Produce again" : "Produce"))));
}

/** @param {{name: "key" | "value", title: string, rows: number, form: any, change: (change: any) => void}} props */
function SideField({ name, title, rows, form, change }) {
  const format = form[`${name}_format`];
  // It is read when the record is written: a form that is sent while it was being read had none of it.
  /** @param {Event} event */
  const file = (event) => change({ [name]: /** @type {HTMLInputElement} */ (event.target).files?.[0] ?? "" });
  const label = `${title} as ${format}`;
  return h("div", { class: "field" },
    h("span", { class: "field-row" }, h("span", null, title),
      h("select", { class: "push", value: format, "aria-label": `Format of the ${name}`, onChange: (/** @type {Event} */ event) => change({ [`${name}_format`]: textOf(event), ...(textOf(event) === "base64" || format === "base64" ? { [name]: "" } : {}) }) },
        FORMATS.map(([value, words]) => h("option", { key: value, value }, words)))),
    format === "base64" ? h("input", { type: "file", required: true, "aria-label": label, onChange: file })
      : format === "null" ? h("p", { class: "muted" }, name === "value" ? "∅ a tombstone" : "∅ no key")
      : h("textarea", { rows, autofocus: name === "value", value: form[name], spellcheck: false, "aria-label": label, onInput: (/** @type {InputEvent} */ event) => change({ [name]: textOf(event) }) }));
}

/** @param {RecordRow | null} like */
function startOf(like) {
  const start = { key: /** @type {string | File} */ (""), key_format: "text", value: /** @type {string | File} */ (""), value_format: "text", headers: "", kept: /** @type {KeptHeader[]} */ ([]), partition: "", timestamp: "" };
  if (!like) return start;
  return {
    ...start,
    ...sideOf(like, "key"),
    ...sideOf(like, "value"),
    ...headersOf(like),
  };
}

/**
 * What is sent of a header that no line can say, and where it stood.
 * @typedef {{at: number, header: [string, string | null] | [string, string, "hex"]}} KeptHeader
 */

/**
 * A line for each header; those whose bytes are no text, or whose text is no line, are kept as they are.
 * @param {RecordRow} like
 */
function headersOf(like) {
  /** @type {string[]} */
  const lines = [];
  /** @type {KeptHeader[]} */
  const kept = [];
  like.headers.forEach(([name, text], at) => {
    const digits = like.headers_hex?.[at] ?? null;
    if (digits !== null) kept.push({ at, header: [name, digits, "hex"] });
    else if (name === "" || /[=\r\n]/.test(name) || /[\r\n]/.test(text ?? "")) kept.push({ at, header: [name, text] });
    else lines.push(text === null ? name : `${name}=${text}`);
  });
  return { headers: lines.join("\n"), kept };
}

/**
 * @param {KeptHeader[]} kept
 * @param {KeptHeader} one
 */
function withoutOne(kept, one) {
  return kept.filter((other) => other !== one).map((other) => (other.at > one.at ? { ...other, at: other.at - 1 } : other));
}

/** @param {KeptHeader} kept */
function keptWords({ header: [name, content, format] }) {
  if (content === null) return `${name}: null`;
  const shown = content.length > KEPT_CHARACTERS_MAX ? `${content.slice(0, KEPT_CHARACTERS_MAX)}…` : content;
  return format === "hex" ? `${name}: bytes ${shown}` : `${JSON.stringify(name)}: ${JSON.stringify(shown)}`;
}

const KEPT_CHARACTERS_MAX = 64;

/**
 * @param {RecordRow} row
 * @param {"key" | "value"} side
 */
function sideOf(row, side) {
  const format = row[`${side}_format`];
  const known = format === "null" || format === "hex" || format === "json" ? format : "text";
  // An empty field is no key; of a key that has no bytes there are no digits.
  if (side === "key" && row.key === "") return { key: "", key_format: "hex" };
  return { [side]: row[side] ?? "", [`${side}_format`]: known };
}

/** @param {ReturnType<typeof startOf>} form */
async function bodyOf(form) {
  return {
    key: await contentOf(form.key),
    key_format: form.key === "" && (form.key_format === "text" || form.key_format === "json") ? "null" : form.key_format,
    value: await contentOf(form.value),
    value_format: form.value_format,
    headers: headersIn(form),
    partition: form.partition === "" ? null : Number(form.partition),
    timestamp_ms: form.timestamp.trim() === "" ? null : Number(form.timestamp),
  };
}

/**
 * The headers of the lines, and those that are kept where they stood.
 * @param {ReturnType<typeof startOf>} form
 */
function headersIn(form) {
  /** @type {KeptHeader["header"][]} */
  const headers = form.headers.split("\n").filter(Boolean).map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, null] : [line.slice(0, at), line.slice(at + 1)];
  });
  for (const { at, header } of form.kept) headers.splice(at, 0, header);
  return headers;
}

/** @param {Event} event */
function textOf(event) {
  return /** @type {HTMLInputElement} */ (event.target).value;
}

/** @param {string | File} content as it is typed, or a file */
async function contentOf(content) {
  if (typeof content === "string") return content;
  try {
    return base64Of(new Uint8Array(await content.arrayBuffer()));
  } catch {
    throw new ApiError({ status: 400, error: "file", message: `The file ${content.name} cannot be read.`, hint: "Choose it again." });
  }
}

/** @param {Uint8Array} data */
function base64Of(data) {
  let text = "";
  for (let at = 0; at < data.length; at += 8_192) text += String.fromCharCode(...data.subarray(at, at + 8_192));
  return btoa(text);
}
