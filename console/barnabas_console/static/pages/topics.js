// The topics of the cluster: ten thousand of them are searched and sorted by the server (CON-112).
import { h, useState } from "../vendor/vendor.js";
import { Export } from "../parts/export.js";
import { Filter } from "../parts/filter.js";
import { Lazy } from "../parts/lazy.js";
import { ChangeButton } from "../parts/lock.js";
import { Empty, Loaded } from "../parts/notices.js";
import { useServerRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { href, setQuery } from "../router.js";
import { bytes, count, counted, rate } from "../words.js";

/**
 * @typedef {{topic: string, partitions: number, replicas: number, under_replicated: number, offline: number, internal: boolean,
 *   records_per_second?: number | null, size_bytes?: number | null, records?: number | null, records_exact?: boolean, groups?: number | null}} TopicRow
 */

const loadTopic = () => import("./topic.js");
const loadCreateTopic = async () => ({ default: (await import("../parts/create_topic.js")).CreateTopic });

/** @param {{cluster: string, params: string[], query: Record<string, string>}} props */
export default function Topics({ cluster, params, query }) {
  if (params.length > 0) return h(Lazy, { load: loadTopic, props: { cluster, params, query } });
  return h(TopicList, { query });
}

/** @param {{query: Record<string, string>}} props */
function TopicList({ query }) {
  const { q = "", sort = "topic" } = query;
  const internal = query["internal"] === "true";
  const [creating, setCreating] = useState(false);
  const { polled, source, onRange } = useServerRows("topics", { q, sort, internal: internal ? "true" : "" });
  return h("div", null,
    h("div", { class: "page-head" }, h("h1", null, "Topics"),
      h(Filter, { value: q, label: "Search topics" }),
      polled.data && h("span", { class: "muted", role: "status" }, q ? `${count(source.total)} found` : counted(source.total, "topic")),
      h("label", { class: "check push" }, h("input", { type: "checkbox", checked: internal, onChange: () => setQuery({ internal: !internal }) }), "Internal"),
      source.total > 0 && h(Export, { path: "exports/topics", query: { q, sort, ...(internal ? { internal: "true" } : {}) } }),
      h(ChangeButton, { lock: undefined, command: "barnabas topic create orders --partitions 6", onClick: () => setCreating(true) }, "Create topic…")),
    creating && h(Lazy, { load: loadCreateTopic, props: { onClose: () => setCreating(false) } }),
    h(Loaded, { polled, rows: 12, children: () => (source.total === 0
      ? (q ? h(Empty, { title: `No topic has “${q}” in its name.` }) : h(Empty, { title: "There is no topic yet.", command: "barnabas topic create orders --partitions 6" }, "The first one appears here as soon as it is created:"))
      : h(Table, {
        label: "Topics", columns: columns(source), source, keyOf: (/** @type {any} */ row) => row.topic, onRange,
        hrefOf: (/** @type {any} */ row) => href(["topics", row.topic]), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
      })) }));
}

/** Columns that no topic has a fact for are left out. @param {import("../parts/table.js").RowSource<any>} source */
function columns(source) {
  return COLUMNS.filter(({ key }) => key === "topic" || Array.from({ length: Math.min(source.total, 100) }, (_, index) => source.row(index)).some((row) => !row || (row[key] ?? null) !== null));
}

/** @type {import("../parts/table.js").Column<TopicRow>[]} */
const COLUMNS = [
  { key: "topic", title: "Topic", cell: (row) => row.topic, text: (row) => row.topic },
  { key: "partitions", title: "Partitions", numeric: true, width: 104, cell: (row) => count(row.partitions) },
  { key: "records_per_second", title: "Records/s", numeric: true, width: 112, line: 1, cell: (row) => rate(row.records_per_second) },
  { key: "size_bytes", title: "Size", numeric: true, width: 112, cell: (row) => bytes(row.size_bytes) },
  { key: "under_replicated", title: "URP", hint: "Under-replicated partitions", numeric: true, width: 80, cell: (row) => h("span", { class: row.offline ? "critical" : row.under_replicated ? "warning" : undefined }, count(row.under_replicated)) },
  { key: "groups", title: "Groups", numeric: true, width: 88, line: 0, cell: (row) => count(row.groups) },
];
