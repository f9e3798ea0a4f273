// One broker: its state, its directories, what it holds, its settings (CON-111).
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { Filter } from "../parts/filter.js";
import { Empty, Loaded } from "../parts/notices.js";
import { PartitionName } from "../parts/partition_name.js";
import { useServerRows } from "../parts/rows.js";
import { SettingsTable } from "../parts/settings_table.js";
import { Meter } from "../parts/sparkline.js";
import { StateBadge } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { Tabs } from "../parts/tabs.js";
import { href, setQuery } from "../router.js";
import { bytes, count, counted, lateness } from "../words.js";
import { Safe, drainWords } from "./broker_columns.js";

/** @typedef {{path: string, error: string | null, total_bytes: number | null, usable_bytes: number | null, is_cordoned: boolean}} Directory */
/** @typedef {{topic: string, partition: number, role: "leader" | "follower", leader: number | null, in_sync: boolean, size_bytes: number | null}} HeldPartition */
/** @typedef {import("./broker_columns.js").Broker & {directories: Directory[] | null}} BrokerFacts */

const TABS = [
  { key: "partitions", title: "Partitions" },
  { key: "settings", title: "Settings" },
];

/** @param {{params: string[], query: Record<string, string>}} props */
export default function Broker({ params, query }) {
  const [id = "", named] = params;
  const tab = TABS.find(({ key }) => key === named)?.key ?? "partitions";
  const broker = usePolled(`brokers/${encodeURIComponent(id)}`);
  return h("div", null,
    h("h1", null, `Broker ${id}`),
    h(Loaded, { polled: broker, rows: 4, children: (/** @type {BrokerFacts} */ facts) => h(Facts, { facts }) }),
    h(Tabs, { label: `Broker ${id}`, current: tab, tabs: TABS.map(({ key, title }) => ({ key, title, href: href(["brokers", id, key]) })) }),
    tab === "settings" ? h(Settings, { id, query }) : h(Partitions, { id, query }));
}

/** @param {{id: string, query: Record<string, string>}} props */
function Settings({ id, query }) {
  const polled = usePolled(`brokers/${encodeURIComponent(id)}/settings`, { intervalMs: 10_000 });
  return h(Loaded, { polled, children: (/** @type {any} */ facts) => h(SettingsTable, { facts, query }) });
}

/** Thousands of them: searched and sorted by the server. @param {{id: string, query: Record<string, string>}} props */
function Partitions({ id, query }) {
  const { q = "", sort = "partition" } = query;
  const { polled, source, onRange } = useServerRows(`brokers/${encodeURIComponent(id)}/partitions`, { q, sort }, { intervalMs: 5_000 });
  return h("div", null,
    h("div", { class: "page-head" },
      h(Filter, { value: q, label: "Search partitions by topic" }),
      polled.data && h("span", { class: "muted", role: "status" }, q ? `${count(source.total)} found` : counted(source.total, "partition"))),
    h(Loaded, { polled, rows: 12, children: () => (source.total === 0
      ? h(Empty, { title: q ? `No topic with “${q}” in its name has a partition here.` : "This broker has no partition.", ...(q ? {} : { command: "barnabas topic create orders --partitions 6" }) })
      : h(Table, {
        label: "Partitions", columns: PARTITION_COLUMNS, source, keyOf: (/** @type {HeldPartition} */ row) => `${row.topic}-${row.partition}`, onRange,
        hrefOf: (/** @type {HeldPartition} */ row) => href(["topics", row.topic, "partitions"]), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
      })) }));
}

/** @type {import("../parts/table.js").Column<HeldPartition>[]} */
const PARTITION_COLUMNS = [
  { key: "partition", title: "Partition", cell: ({ topic, partition }) => h(PartitionName, { topic, partition }), text: (row) => `${row.topic}-${row.partition}` },
  { key: "role", title: "Role", width: 240, bare: true, cell: (row) => (row.role === "leader" ? "● leader" : row.leader === null ? "○ follower, no leader" : `○ follower of broker ${row.leader}`) },
  { key: "in_sync", title: "In sync", line: 1, width: 128, cell: (row) => h(StateBadge, { state: row.in_sync ? "fine" : "warning" }, row.in_sync ? "in sync" : "out of sync") },
  { key: "size_bytes", title: "Size", hint: "Of this broker's replica", numeric: true, width: 112, sort: false, cell: (row) => bytes(row.size_bytes) },
];

/** @param {{facts: BrokerFacts}} props */
function Facts({ facts }) {
  const { host, port, rack, leaders, under_replicated: lacking, is_controller: leads, loop_lag_ms: lag, directories } = facts;
  return h("div", null,
    h("dl", { class: "facts" },
      h(Fact, { title: "Safe to stop", whole: true }, h(Safe, { broker: facts })),
      host && h(Fact, { title: "Address" }, h("code", null, port ? `${host}:${port}` : host)),
      rack && h(Fact, { title: "Rack" }, rack),
      facts.drain && h(Fact, { title: "Drain" }, h(StateBadge, { state: "working" }, drainWords(facts))),
      h(Fact, { title: "Controller" }, leads ? "this broker" : "another broker"),
      h(Fact, { title: "Leaders" }, count(leaders)),
      h(Fact, { title: "Under-replicated" }, count(lacking)),
      lag !== null && lag !== undefined && h(Fact, { title: "Loop lag" }, lateness(lag))),
    directories && h("section", null, h("h2", { class: "part" }, "Log directories"),
      h("ul", { class: "directories" }, directories.map((one) => h("li", { key: one.path }, h(DirectoryLine, { one }))))));
}

/** @param {{title: string, whole?: boolean, children?: any}} props `whole` where it may be long */
function Fact({ title, whole = false, children }) {
  return h("div", { class: whole ? "whole" : undefined }, h("dt", null, title), h("dd", null, children));
}

/** @param {{one: Directory}} props */
function DirectoryLine({ one }) {
  const { path, error, total_bytes: total, usable_bytes: usable, is_cordoned: closed } = one;
  return [
    h("code", { key: "path" }, path),
    error ? h(StateBadge, { key: "state", state: "critical" }, error)
      : total !== null && usable !== null && h(Meter, { key: "state", share: 1 - usable / total, label: `${bytes(usable)} of ${bytes(total)} free` }, `${bytes(usable)} free of ${bytes(total)}`),
    closed && h(StateBadge, { key: "closed", state: "warning" }, "takes no new replicas"),
  ];
}
