// The parts of the cluster's page that move: metadata log, replicas on the move, transactions (CON-121).
import { h, useState } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { href, setQuery } from "../router.js";
import { readOnly } from "../session.js";
import { bytes, count, duration } from "../words.js";
import { PageCommand } from "./command.js";
import { Empty } from "./notices.js";
import { PlanDialog } from "./plan.js";
import { localRows } from "./rows.js";
import { Meter } from "./sparkline.js";
import { StateBadge } from "./state.js";
import { Table } from "./table.js";

/** @typedef {{broker: number, role: string, is_leader: boolean, log_end_offset: number, lag: number, last_fetch_ms: number | null, last_caught_up_ms: number | null}} QuorumReplica */

/** @param {{facts: {leader: number, epoch: number, high_watermark: number, replicas: QuorumReplica[]}, query: Record<string, string>}} props */
export function MetadataLog({ facts, query }) {
  const sort = query["sort"] ?? "broker";
  return h("div", null,
    h("dl", { class: "facts" },
      h("div", null, h("dt", null, "Controller"), h("dd", null, facts.leader < 0 ? h(StateBadge, { state: "critical" }, "none") : `broker ${facts.leader}`)),
      h("div", null, h("dt", null, "Controller epoch"), h("dd", null, count(facts.epoch))),
      h("div", null, h("dt", null, "Committed up to"), h("dd", null, count(facts.high_watermark)))),
    h(Table, {
      label: "Replicas of the metadata log", wrap: true, source: localRows(facts.replicas, sort), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
      keyOf: (/** @type {QuorumReplica} */ row) => row.broker, columns: [
        { key: "broker", title: "Broker", cell: (/** @type {QuorumReplica} */ row) => `${row.broker}${row.is_leader ? " ★" : ""}` },
        { key: "role", title: "Role", line: 1, cell: (/** @type {QuorumReplica} */ row) => (row.is_leader ? "controller" : row.role) },
        { key: "log_end_offset", title: "End", numeric: true, cell: (/** @type {QuorumReplica} */ row) => count(row.log_end_offset) },
        { key: "lag", title: "Behind", numeric: true, cell: (/** @type {QuorumReplica} */ row) => count(row.lag) },
        { key: "last_fetch_ms", title: "Last fetch", numeric: true, cell: (/** @type {QuorumReplica} */ row) => (row.is_leader || row.last_fetch_ms === null ? "–" : `${duration(Math.max(0, Date.now() - row.last_fetch_ms))} ago`) },
      ],
    }),
    h(PageCommand, { text: "barnabas cluster status" }));
}

/** @typedef {{partition: string, replicas: number[], adding: number[], removing: number[], copied_bytes: number | null, total_bytes: number | null, seconds_left: number | null}} Move */

/** @param {{facts: {rows: Move[]}, query: Record<string, string>}} props */
export function Moves({ facts, query }) {
  const sort = query["sort"] ?? "partition";
  return h("div", null, h(Drains, {}), facts.rows.length === 0 ? h(Empty, { title: "No replica is on the move." }) : h(Table, {
    label: "Replicas on the move", wrap: true, source: localRows(facts.rows, sort), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
    keyOf: (/** @type {Move} */ row) => row.partition, columns: [
      { key: "partition", title: "Partition", cell: (/** @type {Move} */ row) => row.partition },
      { key: "adding", title: "To", sort: false, cell: (/** @type {Move} */ row) => row.adding.join(", ") || "–" },
      { key: "removing", title: "From", sort: false, cell: (/** @type {Move} */ row) => row.removing.join(", ") || "–" },
      { key: "copied_bytes", title: "Copied", sort: false, cell: (/** @type {Move} */ row) => h(Copied, { move: row }) },
      { key: "seconds_left", title: "Left", numeric: true, line: 1, cell: (/** @type {Move} */ row) => (row.seconds_left === null ? h(StateBadge, { state: "unknown" }, "not known yet") : duration(row.seconds_left * 1000)) },
    ],
  }));
}

/** @typedef {{broker: number, phase: string, leaders_left: number | null, seconds_left: number | null}} Drain */

/** Brokers that give away what they lead, where there are any. */
function Drains() {
  const { data } = usePolled("drains", { intervalMs: 4_000 });
  /** @type {Drain[]} */
  const rows = data?.rows ?? [];
  if (rows.length === 0) return null;
  return h("section", null, h("h2", { class: "part" }, "Drains"),
    h(Table, {
      label: "Drains", wrap: true, source: localRows(rows, "broker"), keyOf: (/** @type {Drain} */ row) => row.broker,
      hrefOf: (/** @type {Drain} */ row) => href(["brokers", String(row.broker)]), columns: [
        { key: "broker", title: "Broker", cell: (/** @type {Drain} */ row) => String(row.broker) },
        { key: "phase", title: "Drain", line: 1, cell: (/** @type {Drain} */ row) => h(StateBadge, { state: row.phase === "drained" ? "fine" : "working" }, row.phase) },
        { key: "leaders_left", title: "Leaders left", numeric: true, cell: (/** @type {Drain} */ row) => count(row.leaders_left) },
        { key: "seconds_left", title: "Left", numeric: true, cell: (/** @type {Drain} */ row) => (row.seconds_left === null ? h(StateBadge, { state: "unknown" }, "not known yet") : duration(row.seconds_left * 1000)) },
      ],
    }),
    h("h2", { class: "part" }, "Moves"));
}

/** @param {{move: Move}} props */
function Copied({ move }) {
  const { copied_bytes: copied, total_bytes: total } = move;
  if (copied === null || total === null) return h(StateBadge, { state: "unknown" });
  const words = `${bytes(copied)} of ${bytes(total)}`;
  return h(Meter, { share: total ? Math.min(1, copied / total) : 1, label: words }, words);
}

/** @typedef {{transactional_id: string, state: string, producer_id: number, producer_epoch?: number, started_at?: string | null, partitions?: {topic: string, partition: number}[]}} Transaction */

/** @param {{facts: {rows: Transaction[], total: number}, query: Record<string, string>}} props those with something open come first */
export function Transactions({ facts, query }) {
  const [open, setOpen] = useState("");
  const sort = query["sort"] ?? "";
  if (facts.rows.length === 0) return h(Empty, { title: "No producer has used a transactional id.", command: "barnabas transaction list" });
  return h("div", null,
    h(Table, {
      label: "Transactions", wrap: true, source: localRows(facts.rows, sort), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
      keyOf: (/** @type {Transaction} */ row) => row.transactional_id,
      ...(readOnly.value ? {} : { onOpen: (/** @type {Transaction} */ row) => setOpen(row.transactional_id) }),
      columns: [
        { key: "transactional_id", title: "Transactional id", cell: (/** @type {Transaction} */ row) => row.transactional_id },
        { key: "state", title: "State", line: 1, width: 184, cell: (/** @type {Transaction} */ row) => h(StateBadge, { state: row.state === "Ongoing" ? "working" : row.state.startsWith("Prepare") ? "warning" : "fine" }, row.state) },
        { key: "started_at", title: "Open since", width: 200, cell: (/** @type {Transaction} */ row) => row.started_at ?? "–" },
        { key: "partitions", title: "Partitions", sort: false, cell: (/** @type {Transaction} */ row) => (row.partitions ?? []).map(({ topic, partition }) => `${topic}-${partition}`).join(", ") || "–" },
        { key: "producer_id", title: "Producer", numeric: true, width: 112, cell: (/** @type {Transaction} */ row) => String(row.producer_id) },
      ],
    }),
    facts.total > facts.rows.length && h("p", { class: "muted" }, `and ${count(facts.total - facts.rows.length)} more`),
    open && h(PlanDialog, { title: `Abort the transaction of ${open}`, action: "Abort", danger: true, body: { kind: "fence-producer", transactional_id: open }, onClose: () => setOpen("") }),
    h(PageCommand, { text: "barnabas transaction list" }));
}
