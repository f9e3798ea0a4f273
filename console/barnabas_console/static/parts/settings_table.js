// The settings of a topic or broker: value, where it comes from, what it is for (CON-117).
import { h } from "../vendor/vendor.js";
import { setQuery } from "../router.js";
import { bytes, counted, duration } from "../words.js";
import { PageCommand } from "./command.js";
import { localRows } from "./rows.js";
import { Table } from "./table.js";

/** @typedef {{name: string, value: string | null, source: string, is_sensitive?: boolean, unit?: string | null, why?: string | null}} Setting */

/** Kafka's names of where a value comes from, in words. @type {Record<string, string>} */
const SOURCES = {
  "default": "default",
  "dynamic-topic": "this topic",
  "dynamic-broker": "this broker",
  "dynamic-default-broker": "all brokers",
  "static-broker": "the broker's file",
  "dynamic-group": "this group",
};

/** @type {import("./table.js").Column<Setting>[]} */
const COLUMNS = [
  { key: "name", title: "Setting", width: 296, cell: (row) => h("code", null, row.name) },
  { key: "value", title: "Value", line: 1, cell: (row) => h(Value, { row }) },
  { key: "source", title: "Set by", width: 152, cell: (row) => h("span", { class: isDefault(row) ? "muted" : undefined, title: row.source }, SOURCES[row.source] ?? row.source) },
  { key: "why", title: "What for", sort: false, bare: true, cell: (row) => h("span", { class: "muted" }, row.why ?? "") },
];

/** @param {{facts: {rows: Setting[], command: string}, query: Record<string, string>, onOpen?: (setting: Setting) => void}} props what was set comes first */
export function SettingsTable({ facts, query, onOpen }) {
  const { sort = "", all } = query;
  const set = facts.rows.filter((row) => !isDefault(row));
  const shown = all ? facts.rows : set;
  const columns = facts.rows.some((row) => row.why) ? COLUMNS : COLUMNS.filter(({ key }) => key !== "why");
  return h("div", null,
    h("label", { class: "check" },
      h("input", { type: "checkbox", checked: Boolean(all), onChange: () => setQuery({ all: all ? "" : "true" }) }),
      ` Show ${counted(facts.rows.length - set.length, "default")}, too`),
    shown.length === 0
      ? h("p", { class: "muted" }, "Nothing is set here; the defaults hold.")
      : h(Table, { label: "Settings", wrap: true, columns, source: localRows(shown, sort || "name"), keyOf: (/** @type {Setting} */ row) => row.name, sort: sort || "name", ...(onOpen ? { onOpen } : {}), onSort: (/** @type {string} */ next) => setQuery({ sort: next }) }),
    h(PageCommand, { text: facts.command }));
}

/** @param {Setting} row */
export function isDefault(row) {
  return row.source.startsWith("default");
}

/** @param {{row: Setting}} props */
function Value({ row }) {
  if (row.is_sensitive) return h("span", { class: "muted" }, "hidden");
  if (row.value === null || row.value === "") return h("span", { class: "muted" }, row.value === null ? "–" : "empty");
  const read = readable(row);
  return h("span", null, h("code", null, row.value), row.unit && h("span", { class: "muted" }, ` ${row.unit}${read ? ` = ${read}` : ""}`));
}

/** "7 d" for 604800000 ms. @param {Setting} row */
function readable({ value, unit }) {
  const number = Number(value);
  if (unit === "ms" && number >= 1_000) return duration(number);
  if (unit === "bytes" && number >= 1_024) return bytes(number);
  return "";
}
