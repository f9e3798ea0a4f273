// How much comes to a topic: over the last hour, and by partition now (CON-117, 137).
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { Chart } from "../parts/chart.js";
import { Timeline, marksOf, useChanges, useSeries } from "../parts/history.js";
import { Loaded } from "../parts/notices.js";
import { localRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { setQuery } from "../router.js";
import { percent, rate } from "../words.js";

/** @typedef {{partition: number, leader: number | null, arriving: number | null}} PartitionRate */

/** @param {{params: {topic: string}, query: Record<string, string>}} props */
export default function Traffic({ params, query }) {
  const { topic } = params;
  const polled = usePolled(`topics/${encodeURIComponent(topic)}/traffic`, { intervalMs: 5_000 });
  const changes = useChanges({ topic });
  return h("div", null,
    h(Arriving, { topic, changes }),
    h(Loaded, { polled, children: (/** @type {{arriving: number | null, partition_list: PartitionRate[]}} */ facts) => h(ByPartition, { facts, sort: query["sort"] ?? "-arriving" }) }),
    changes.length > 0 && h("section", null, h("h2", null, "Timeline"), h(Timeline, { changes })));
}

/** @param {{topic: string, changes: import("../parts/history.js").Change[]}} props */
function Arriving({ topic, changes }) {
  const { t, columns: [arriving] } = useSeries([`topic:arriving:${topic}`]);
  if (t.length < 2 || !arriving) return h("p", { class: "muted" }, "The chart begins when the console has looked twice, ten seconds apart.");
  return h(Chart, { title: "Written", unit: "records/s", t, lines: [{ label: topic, values: arriving }], marks: marksOf(changes), format: rate });
}

/** @param {{facts: {arriving: number | null, partition_list: PartitionRate[]}, sort: string}} props */
function ByPartition({ facts, sort }) {
  const total = facts.arriving;
  /** @type {import("../parts/table.js").Column<PartitionRate>[]} */
  const columns = [
    { key: "partition", title: "Partition", cell: (row) => String(row.partition) },
    { key: "leader", title: "Leader", numeric: true, width: 96, cell: (row) => (row.leader === null ? h("span", { class: "critical" }, "none") : String(row.leader)) },
    { key: "arriving", title: "Records/s", numeric: true, width: 136, line: 1, cell: (row) => rate(row.arriving) },
    { key: "share", title: "Share", sort: false, numeric: true, width: 96, cell: (row) => (total && row.arriving !== null ? percent(row.arriving / total) : "–") },
  ];
  return h(Table, {
    label: "Partitions", columns, source: localRows(facts.partition_list, sort), keyOf: (/** @type {PartitionRate} */ row) => row.partition,
    sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
  });
}
