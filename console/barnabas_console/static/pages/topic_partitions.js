// The partitions of a topic: a grid of brokers and partitions, and a row for each (CON-117).
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { PageCommand } from "../parts/command.js";
import { Loaded } from "../parts/notices.js";
import { localRows } from "../parts/rows.js";
import { StateBadge } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { setQuery } from "../router.js";
import { bytes, count, counted, recordCount } from "../words.js";

/**
 * @typedef {{partition: number, leader: number | null, leader_epoch: number, replicas: number[], in_sync: number[],
 *   offline?: number[], adding?: number[], removing?: number[], start_offset: number | null, end_offset: number | null, records: number | null, records_exact: boolean, size_bytes: number | null}} PartitionRow
 */

/** @param {{params: {topic: string}, query: Record<string, string>}} props */
export default function Partitions({ params, query }) {
  const { topic } = params;
  const polled = usePolled(`topics/${encodeURIComponent(topic)}`);
  const sort = query["sort"] ?? "partition";
  return h(Loaded, { polled, children: (/** @type {any} */ facts) => {
    /** @type {PartitionRow[]} */
    const rows = facts.partition_list;
    return h("div", null,
      h("p", { class: "headline", title: "Markers of transactions, aborted records and those that compaction took have offsets, too" }, totalsOf(rows)),
      h(Grid, { rows }),
      h(Table, {
        label: "Partitions", columns: columns(), source: localRows(rows, sort), keyOf: (/** @type {any} */ row) => row.partition,
        sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
      }),
      h(PageCommand, { text: facts.command }));
  } });
}

/** @returns {import("../parts/table.js").Column<PartitionRow>[]} */
function columns() {
  return [
    { key: "partition", title: "Partition", width: 104, cell: (row) => String(row.partition) },
    { key: "leader", title: "Leader", numeric: true, width: 96, cell: (row) => (row.leader === null ? h("span", { class: "critical" }, "none") : String(row.leader)) },
    { key: "leader_epoch", title: "Epoch", hint: "Leader epoch", numeric: true, width: 80, line: 0, cell: (row) => count(row.leader_epoch) },
    { key: "start_offset", title: "First offset", numeric: true, width: 144, line: 0, cell: (row) => count(row.start_offset) },
    { key: "end_offset", title: "Next offset", numeric: true, width: 144, cell: (row) => count(row.end_offset) },
    { key: "records", title: "Records", hint: "At most so many: not every offset is a record", numeric: true, width: 128, line: 0, cell: (row) => recordCount(row.records, row.records_exact) },
    { key: "size_bytes", title: "Size", numeric: true, width: 112, cell: (row) => bytes(row.size_bytes) },
    { key: "in_sync", title: "In sync", numeric: true, width: 104, line: 1, cell: (row) => h(StateBadge, { state: row.in_sync.length < row.replicas.length ? "warning" : "fine" }, `${row.in_sync.length} of ${row.replicas.length}`) },
  ];
}

/** Of all partitions that are known. @param {PartitionRow[]} rows */
function totalsOf(rows) {
  const known = rows.filter(({ records }) => records !== null);
  const total = known.reduce((sum, { records }) => sum + (records ?? 0), 0);
  const words = `${known.every(({ records_exact: exact }) => exact) ? "" : "≤ "}${counted(total, "record")}`;
  const away = rows.length - known.length;
  return `${counted(rows.length, "partition")}, ${words}${away ? `, and what is in ${counted(away, "partition")} that do not tell` : ""}`;
}

/** Which broker has which partition: leader, in sync, out, moving. @param {{rows: PartitionRow[]}} props */
function Grid({ rows }) {
  const brokers = [...new Set(rows.flatMap((row) => row.replicas))].toSorted((one, other) => one - other);
  const size = 20;
  const name = 64;
  return h("figure", { class: "grid" },
    h("svg", { width: name + rows.length * size, height: brokers.length * size + size, role: "img", "aria-label": "Brokers by partitions; the table below says the same" },
      rows.map((row, place) => place % Math.ceil(rows.length / 48) === 0 && h("text", { key: `p${row.partition}`, class: "grid-title", x: name + place * size + size / 2, y: 13, "text-anchor": "middle" }, row.partition)),
      brokers.map((broker, line) => [
        h("text", { key: `b${broker}`, class: "grid-title", x: 0, y: size + line * size + 14 }, `broker ${broker}`),
        rows.map((row, place) => h(Cell, { key: `${broker}-${row.partition}`, row, broker, x: name + place * size + size / 2, y: size + line * size + size / 2 })),
      ])),
    h("figcaption", { class: "muted" }, "● leader  ○ in sync  × out of sync  → moving"));
}

/** @param {{row: PartitionRow, broker: number, x: number, y: number}} props */
function Cell({ row, broker, x, y }) {
  if (!row.replicas.includes(broker)) return null;
  const title = h("title", null, `partition ${row.partition}, broker ${broker}`);
  if (row.adding?.includes(broker) || row.removing?.includes(broker)) return h("path", { class: "working", d: `M${x - 5} ${y}h9m-4-4 4 4-4 4`, fill: "none", stroke: "currentColor", "stroke-width": 1.6 }, title);
  if (row.leader === broker) return h("circle", { class: "grid-leader", cx: x, cy: y, r: 5 }, title);
  if (row.in_sync.includes(broker)) return h("circle", { class: "grid-in-sync", cx: x, cy: y, r: 4.4 }, title);
  return h("path", { class: "warning", d: `M${x - 4} ${y - 4}l8 8m0-8-8 8`, fill: "none", stroke: "currentColor", "stroke-width": 2 }, title);
}
