// The groups that read a topic, and how far behind they are in it (CON-117).
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { commandLine } from "../parts/command.js";
import { Empty, Loaded } from "../parts/notices.js";
import { localRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { behind, words } from "./groups.js";
import { href, setQuery } from "../router.js";
import { count } from "../words.js";

/** @typedef {import("./groups.js").GroupRow & {topic_lag: number | null, topic_lag_seconds: number | null, topic_members: number}} ReaderRow */

/** @param {{params: {topic: string}, query: Record<string, string>}} props */
export default function TopicGroups({ params, query }) {
  const { topic } = params;
  const polled = usePolled(`topics/${encodeURIComponent(topic)}/groups`, { intervalMs: 5_000 });
  const sort = query["sort"] ?? "-topic_lag";
  return h(Loaded, { polled, children: (/** @type {{rows: ReaderRow[]}} */ { rows }) => (rows.length === 0
    ? h(Empty, { title: "No group reads this topic.", command: commandLine("consume", topic, ["--group", "billing"]) }, "One is listed here ten seconds after its first commit:")
    : h(Table, {
      label: "Groups", columns: columns(), source: localRows(rows, sort), keyOf: (/** @type {ReaderRow} */ row) => row.group,
      hrefOf: (/** @type {ReaderRow} */ row) => href(["groups", row.group]), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
    })) });
}

/** @returns {import("../parts/table.js").Column<ReaderRow>[]} */
function columns() {
  return [
    { key: "group", title: "Group", cell: (row) => row.group, text: (row) => row.group },
    { key: "health", title: "State", sort: false, bare: true, cell: words, text: (row) => row.words },
    { key: "topic_members", title: "Members", hint: "Members that read this topic", numeric: true, width: 112, line: 0, cell: (row) => count(row.topic_members) },
    { key: "topic_lag", title: "Lag here", numeric: true, width: 120, line: 1, cell: (row) => count(row.topic_lag) },
    { key: "topic_lag_seconds", title: "Behind", numeric: true, width: 104, line: 0, cell: (row) => behind(row.topic_lag_seconds) },
  ];
}
