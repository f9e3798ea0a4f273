// One group: why it is as it is, its lag over the last hour, who reads what (CON-118, 119).
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { Chart } from "../parts/chart.js";
import { PageCommand, commandLine } from "../parts/command.js";
import { Diagnosis } from "../parts/diagnosis.js";
import { GroupActions } from "../parts/group_actions.js";
import { Timeline, marksOf, useChanges, useSeries } from "../parts/history.js";
import { Empty, Loaded } from "../parts/notices.js";
import { PartitionName } from "../parts/partition_name.js";
import { localRows } from "../parts/rows.js";
import { StateBadge } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { behind } from "./groups.js";
import { href, setQuery } from "../router.js";
import { count, counted, duration, rate } from "../words.js";

/** @typedef {{topic: string, partition: number, committed?: number | null, start_offset: number | null, end_offset: number | null, lag: number | null, lag_seconds: number | null, client?: string | null, clients?: string[], host?: string | null}} PartitionRow */
/** @typedef {{member: string, instance?: string | null, client: string, host: string, partitions: string[], topics?: string[]}} MemberRow */
/**
 * @typedef {{group: string, state: string, type: string, protocol: string, application?: string | null, assignor: string | null, coordinator: number | null,
 *   member_count: number, lag: number | null, lag_known: number, lag_seconds: number | null, arriving: number | null, reading: number | null,
 *   diagnosis: import("../parts/diagnosis.js").Finding[], members: MemberRow[], partition_list: PartitionRow[]}} GroupFacts
 */

/** @param {{params: string[], query: Record<string, string>}} props */
export default function Group({ params, query }) {
  const [group = ""] = params;
  const polled = usePolled(`groups/${encodeURIComponent(group)}`, { intervalMs: 3_000 });
  return h(Loaded, { polled, children: (/** @type {GroupFacts} */ facts) => h(Facts, { facts, query }) });
}

/** @param {{facts: GroupFacts, query: Record<string, string>}} props */
function Facts({ facts, query }) {
  const changes = useChanges({ group: facts.group });
  const share = facts.type === "Share";
  const command = commandLine(`${share ? "share" : "group"} describe`, facts.group);
  const topics = [...new Set(facts.partition_list.map(({ topic }) => topic))];
  return h("div", { class: "group" },
    h("div", { class: "page-head" },
      h("h1", { class: "thing" }, facts.group, facts.application && h("span", { class: "tag" }, facts.application)),
      h(GroupActions, { group: facts.group, kind: share ? "share" : "consumer", topics })),
    h("p", { class: "headline" }, headline(facts)),
    h(Diagnosis, { findings: facts.diagnosis, shown: command }),
    facts.partition_list.length > 0 && h(Charts, { group: facts.group, changes }),
    h("section", null, h("h2", null, counted(facts.partition_list.length, "partition")), h(Partitions, { facts, query })),
    facts.members.length > 0 && h("section", null, h("h2", null, counted(facts.members.length, "member")), h(Members, { facts })),
    changes.length > 0 && h("section", null, h("h2", null, "Timeline"), h(Timeline, { changes })),
    h(PageCommand, { text: command }));
}

/** @param {GroupFacts} facts */
function headline({ state, type, protocol, assignor, coordinator, lag, lag_known: known, lag_seconds: seconds, arriving, reading }) {
  return [
    `${state}, ${type.toLowerCase()} protocol`,
    protocol && protocol !== "consumer" && protocol !== "share" ? `of ${protocol}` : "",
    lag === 0 ? "no lag" : `lag ${count(lag ?? known)}${lag === null ? " or more" : ""}${seconds ? `, ${duration(seconds * 1_000)} behind` : ""}`,
    arriving === null || reading === null ? "" : `${rate(arriving)} come, ${rate(reading)} are read`,
    assignor ? `assignor ${assignor}` : "",
    coordinator === null ? "" : `coordinator ${coordinator}`,
  ].filter(Boolean).join(" · ");
}

/** @param {{group: string, changes: import("../parts/history.js").Change[]}} props */
function Charts({ group, changes }) {
  const { t, columns } = useSeries(["lag", "lag_seconds", "arriving", "reading"].map((metric) => `group:${metric}:${group}`));
  if (t.length < 2 || columns.every((column) => column === null)) return h("p", { class: "muted" }, "The charts begin when the console has looked twice, ten seconds apart.");
  const [lag, seconds, arriving, reading] = columns.map((column) => column ?? t.map(() => null));
  const marks = marksOf(changes);
  return h("div", { class: "charts" },
    h(Chart, { title: "Lag", unit: "records", t, lines: [{ label: "lag", values: lag ?? [] }], marks, whole: true, format: count }),
    h(Chart, { title: "Behind", unit: "time", t, lines: [{ label: "behind", values: seconds ?? [] }], marks, format: (value) => duration(value * 1_000) }),
    h(Chart, { title: "Traffic", unit: "records/s", t, lines: [{ label: "come", values: arriving ?? [] }, { label: "are read", values: reading ?? [] }], marks, format: rate }));
}

/** @param {{facts: GroupFacts, query: Record<string, string>}} props */
function Partitions({ facts, query }) {
  const sort = query["sort"] ?? "-lag";
  if (facts.partition_list.length === 0) return h(Empty, { title: "The group has no offsets and reads nothing." });
  /** @type {import("../parts/table.js").Column<PartitionRow>[]} */
  const columns = [
    { key: "partition", title: "Partition", cell: ({ topic, partition }) => h(PartitionName, { topic, partition }), text: (row) => `${row.topic}-${row.partition}` },
    { key: "lag", title: "Lag", numeric: true, width: 112, line: 1, cell: (row) => h("span", { class: row.lag ? "warning" : undefined }, count(row.lag)) },
    { key: "lag_seconds", title: "Behind", numeric: true, width: 104, cell: (row) => behind(row.lag_seconds) },
    { key: "committed", title: facts.type === "Share" ? "Start" : "Committed", numeric: true, width: 136, line: 0, cell: (row) => count(row.committed ?? (facts.type === "Share" ? row.start_offset : null)) },
    { key: "end_offset", title: "End", numeric: true, width: 136, line: 0, cell: (row) => count(row.end_offset) },
    { key: "client", title: "Client", width: 160, cell: clients, text: (row) => [clients(row), row.host].filter(Boolean).join(" at ") },
  ];
  return h(Table, {
    label: "Partitions", columns, source: localRows(facts.partition_list, sort, valueOf), keyOf: (/** @type {PartitionRow} */ row) => `${row.topic}-${row.partition}`,
    hrefOf: (/** @type {PartitionRow} */ row) => href(["topics", row.topic, "partitions"]), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
  });
}

/** @param {PartitionRow} row */
function clients({ client, clients: several }) {
  return client ?? several?.join(", ") ?? "";
}

/** @param {PartitionRow} row @param {string} key */
function valueOf(row, key) {
  return key === "partition" ? `${row.topic}-${row.partition}` : key === "client" ? clients(row) : /** @type {any} */ (row)[key];
}

/** @param {{facts: GroupFacts}} props */
function Members({ facts }) {
  /** @type {import("../parts/table.js").Column<MemberRow>[]} */
  const columns = [
    { key: "client", title: "Client", cell: (row) => row.client, text: (row) => row.member },
    { key: "host", title: "Host", width: 160, cell: (row) => row.host },
    { key: "count", title: "Partitions", numeric: true, width: 104, line: 1, cell: (row) => h(StateBadge, { state: row.partitions.length ? "fine" : "unknown" }, count(row.partitions.length)) },
    { key: "partitions", title: "Which", line: 0, cell: (row) => row.partitions.join(", "), text: (row) => row.partitions.join(", ") },
    { key: "member", title: "Member id", line: 0, cell: (row) => h("span", { class: "mono" }, row.member), text: (row) => row.member },
  ];
  return h(Table, { label: "Members", columns, source: localRows(facts.members, "client"), keyOf: (/** @type {MemberRow} */ row) => row.member });
}
