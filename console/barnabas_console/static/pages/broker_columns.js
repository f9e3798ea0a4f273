// The columns of brokers, which the overview and the brokers' page share.
import { h } from "../vendor/vendor.js";
import { Meter, Sparkline } from "../parts/sparkline.js";
import { StateBadge } from "../parts/state.js";
import { bytes, count, counted, lateness, percent, rate } from "../words.js";

/**
 * `safe`: whether it may be stopped now, with the reason where not; what is unknown is never safe.
 * @typedef {{id: number, host: string | null, port?: number, rack: string | null, safe: "yes" | "no" | "unknown", reason: string | null,
 *   leaders: number | null, under_replicated: number | null, disk_used_bytes: number | null, disk_total_bytes: number | null,
 *   loop_lag_ms: number | null, is_controller: boolean, state?: string, load?: (number | null)[] | null,
 *   load_unit?: "bytes" | "records" | null, drain?: string | null}} Broker
 */

const SAFE_STATES = /** @type {const} */ ({ yes: "fine", no: "warning", unknown: "unknown" });

/**
 * Columns that no broker of the cluster has a fact for are left out.
 * @param {Broker[]} brokers
 * @returns {import("../parts/table.js").Column<Broker>[]}
 */
export function brokerColumns(brokers) {
  /** @param {(broker: Broker) => unknown} fact */
  const any = (fact) => brokers.some((broker) => fact(broker) !== null && fact(broker) !== undefined);
  /** @type {(import("../parts/table.js").Column<Broker> | false)[]} */
  const columns = [
    { key: "id", title: "Broker", width: 160, cell: (broker) => [String(broker.id), broker.is_controller && h("span", { class: "tag" }, "controller"), h(Away, { broker })] },
    { key: "safe", title: "Safe to stop", line: 1, cell: (broker) => h(Safe, { broker }) },
    any((broker) => broker.rack) && { key: "rack", title: "Rack", width: 112, cell: (broker) => broker.rack ?? "–" },
    { key: "leaders", title: "Leaders", numeric: true, width: 96, cell: (broker) => count(broker.leaders) },
    { key: "under_replicated", title: "URP", hint: "Under-replicated partitions", numeric: true, width: 80, cell: (broker) => h("span", { class: broker.under_replicated ? "warning" : undefined }, count(broker.under_replicated)) },
    any((broker) => broker.disk_used_bytes) && { key: "disk_used_bytes", title: "Disk", width: 152, cell: (broker) => h(Disk, { broker }) },
    any((broker) => broker.loop_lag_ms) && { key: "loop_lag_ms", title: "Loop lag", hint: "How late the broker's event loop runs", numeric: true, width: 96, line: 0, cell: (broker) => lateness(broker.loop_lag_ms) },
    any((broker) => broker.load) && { key: "load", title: "Load, 1 h", hint: loadHint(brokers), width: 120, line: 0, sort: false, cell: (broker) => broker.load && h(Sparkline, { values: broker.load, label: loadLabel(broker) }) },
  ];
  return columns.filter((column) => column !== false);
}

/** How far its drain is: it may be stopped when it leads nothing. @param {Broker} broker */
export function drainWords({ drain, leaders }) {
  return leaders === null || leaders === 0 ? `${drain}` : `${drain}, ${counted(leaders, "leader")} left`;
}

/** @param {Broker} broker */
function loadLabel({ id, load = [], load_unit: unit }) {
  const most = Math.max(...(load ?? []).map((value) => value ?? 0));
  return `Load of broker ${id} in the last hour, at most ${unit === "bytes" ? `${bytes(most)}/s` : rate(most)}`;
}

/** @param {Broker[]} brokers */
function loadHint(brokers) {
  return brokers.some((broker) => broker.load_unit === "bytes") ? "Bytes in and out" : "Records that come to the partitions it leads";
}

/** What a broker is where it is not ready. @param {{broker: Broker}} props */
function Away({ broker }) {
  const { state, drain } = broker;
  if (drain && state === "ready") return h("span", { class: "away" }, h(StateBadge, { state: "working" }, drainWords(broker)));
  if (!state || state === "ready") return null;
  return h("span", { class: "away" }, h(StateBadge, { state: state === "fenced" ? "critical" : "working" }, state));
}

/** @param {{broker: {safe: "yes" | "no" | "unknown", reason: string | null}}} props a yes has a reason where it is another's word */
export function Safe({ broker }) {
  const { safe, reason } = broker;
  return h(StateBadge, { state: SAFE_STATES[safe] }, reason ? `${safe}: ${reason}` : safe);
}

/** @param {{broker: Broker}} props */
function Disk({ broker }) {
  const { disk_used_bytes: used, disk_total_bytes: total } = broker;
  if (used === null || used === undefined) return "–";
  if (!total) return bytes(used);
  return h(Meter, { share: used / total, label: `${bytes(used)} of ${bytes(total)}` }, percent(used / total));
}
