// What Kubernetes plans and what it waits for (CON-122): our resources, the brokers' pods, their events.
import { h, useEffect, useState } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { PageCommand } from "../parts/command.js";
import { Copy } from "../parts/copy.js";
import { Empty, Loaded } from "../parts/notices.js";
import { localRows } from "../parts/rows.js";
import { StateBadge } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { Tabs } from "../parts/tabs.js";
import { Safe } from "./broker_columns.js";
import { href, setQuery } from "../router.js";
import { count, duration, moment } from "../words.js";

/** @typedef {"fine" | "warning" | "critical" | "working" | "unknown"} State */
/** @typedef {{type: string, status: string, reason: string, message: string, since_ms: number | null}} Condition */
/** @typedef {{namespace: string, name: string, state: State, sentence: string, conditions: Condition[]}} Resource */
/** @typedef {{id: number, phase: string, message: string | null, node: string | null, leaders: number | null, safe: "yes" | "no" | "unknown", reason: string | null, drain: string | null, pod: string | null, drain_requested_ms: number | null, drain_deadline_ms: number | null, waiting_on: string | null}} Member */
/**
 * @typedef {Resource & {ready_brokers: string | null, plan: {summary: string, waiting_on: string | null, restarts: {broker: number, reasons: string[]}[]} | null,
 *   approve_command: string | null, restarting: {broker: number, reason: string} | null,
 *   decommission: {broker: number, partitions_left: number, message: string | null} | null,
 *   security: {phase: string, target: string, waiting_on: string | null, certificates_expire: string | null} | null, brokers: Member[]}} BrokerResource
 */
/** @typedef {{namespace: string | null, brokers: {rows: BrokerResource[]}, topics: {rows: any[]}, consumergroups: {rows: any[]}, users: {rows: any[]}, pods: {rows: any[]}, events: any[]}} Facts */

const TABS = [
  { key: "plan", title: "Plan" },
  { key: "resources", title: "Resources" },
  { key: "pods", title: "Pods" },
  { key: "events", title: "Events" },
];

/** @param {{params: string[], query: Record<string, string>}} props */
export default function Kubernetes({ params, query }) {
  const polled = usePolled("kubernetes", { intervalMs: 4_000 });
  const tab = TABS.find(({ key }) => key === params[0])?.key ?? "plan";
  if (polled.failure?.status === 501) return h("div", null, h("h1", null, "Kubernetes"), h(Empty, { title: "This console does not look at Kubernetes." }, polled.failure.message, " ", polled.failure.hint ?? ""));
  return h("div", null, h("h1", null, "Kubernetes"),
    h(Tabs, { label: "Kubernetes", current: tab, tabs: TABS.map(({ key, title }) => ({ key, title, href: href(["kubernetes", key]) })) }),
    h(Loaded, { polled, children: (/** @type {Facts} */ facts) => shown(tab, facts, query) }));
}

/**
 * @param {string} tab
 * @param {Facts} facts
 * @param {Record<string, string>} query
 */
function shown(tab, facts, query) {
  if (tab === "resources") return h(Resources, { facts, query });
  if (tab === "pods") return h(Pods, { facts, query });
  if (tab === "events") return h(Events, { facts, query });
  if (facts.brokers.rows.length === 0) return h(Empty, { title: `There is no Broker${facts.namespace ? ` in ${facts.namespace}` : ""}.`, command: kubectlGet(["brokers.barnabas.dev"], facts) });
  return h("div", null, facts.brokers.rows.map((broker) => h(BrokerPlan, { key: `${broker.namespace}/${broker.name}`, broker, query })));
}

/** @param {{broker: BrokerResource, query: Record<string, string>}} props */
function BrokerPlan({ broker, query }) {
  const { namespace, name, state, sentence, plan, approve_command: approve, restarting, decommission, security } = broker;
  const requests = broker.brokers.filter((one) => one.drain_requested_ms !== null);
  return h("section", { class: "part" },
    h("h2", { class: "part" }, `${namespace}/${name} `, h(StateBadge, { state }, sentence || broker.ready_brokers || state)),
    h("dl", { class: "facts wide" },
      h(Fact, { title: "Plan" }, plan ? planText(plan) : "nothing is to be restarted"),
      restarting && h(Fact, { title: "Restarting" }, h(StateBadge, { state: "working" }, `broker ${restarting.broker}: ${restarting.reason}`)),
      plan?.waiting_on && h(Fact, { title: "Waits for" }, plan.waiting_on),
      decommission && h(Fact, { title: "Goes away" }, `broker ${decommission.broker}: ${count(decommission.partitions_left)} replicas left`, decommission.message && `; ${decommission.message}`),
      requests.length > 0 && h(Fact, { title: "Drains" }, h(Drains, { requests })),
      security && security.phase !== security.target && h(Fact, { title: "Security" }, `${security.phase} → ${security.target}${security.waiting_on ? `: waits for ${security.waiting_on}` : ""}`)),
    approve && h("p", { class: "approve" }, "To let exactly these restarts happen: ", h(Copy, { text: approve, primary: true })),
    h(Table, {
      label: `Brokers of ${name}`, wrap: true, source: localRows(broker.brokers, query["sort"] ?? "id"), sort: query["sort"] ?? "id", onSort: (/** @type {string} */ sort) => setQuery({ sort }),
      keyOf: (/** @type {Member} */ row) => row.id, columns: [
        { key: "id", title: "Broker", cell: (/** @type {Member} */ row) => String(row.id), width: 88 },
        { key: "phase", title: "Phase", line: 1, width: 136, cell: (/** @type {Member} */ row) => row.phase ?? "–" },
        { key: "safe", title: "Safe to stop", cell: (/** @type {Member} */ row) => h(Safe, { broker: row }) },
        { key: "node", title: "Node", cell: (/** @type {Member} */ row) => row.node ?? "–" },
        { key: "leaders", title: "Leaders", numeric: true, width: 96, cell: (/** @type {Member} */ row) => count(row.leaders) },
        { key: "waiting_on", title: "Waits for", sort: false, cell: (/** @type {Member} */ row) => row.waiting_on ?? (row.drain === "running" ? null : row.drain) ?? row.message ?? "–" },
      ],
    }),
    h("p", { class: "page-command" }, h(Copy, { text: `kubectl -n ${namespace} describe brokers.barnabas.dev ${name}`, primary: !approve })));
}

/** @param {{summary: string, restarts: {broker: number, reasons: string[]}[]}} plan */
function planText(plan) {
  if (plan.restarts.length === 0) return plan.summary;
  return `restart ${plan.restarts.map(({ broker, reasons }) => `${broker} (${reasons.join(", ")})`).join(", then ")}`;
}

/** Pods that are asked to leave their nodes, and how long they are kept; it counts. @param {{requests: Member[]}} props */
function Drains({ requests }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return h("ul", null, requests.map((one) => h("li", { key: one.id }, h(StateBadge, { state: "warning" }, drainText(one, now)))));
}

/**
 * "node-b asks since 12:04 for demo-1; let go by 13:04, in 12 min".
 * @param {Member} one
 * @param {number} now
 */
function drainText({ id, pod, node, drain_requested_ms: since, drain_deadline_ms: end }, now) {
  const asks = `${node ?? "its node"} asks${since === null ? "" : ` since ${hourAndMinute(since)}`} for ${pod ?? `broker ${id}`}`;
  if (end === null) return `${asks}; it is kept until it can be spared`;
  return `${asks}; let go by ${hourAndMinute(end)}${end > now ? `, in ${duration(end - now)}` : ", as soon as it is asked again"}`;
}

/** @param {number} ms */
function hourAndMinute(ms) {
  return moment(ms).slice(11, 16);
}

/**
 * The command that lists the same, of the namespace that the page is about, or of all.
 * @param {string[]} kinds
 * @param {{namespace: string | null}} facts
 * @param {string} [more]
 */
function kubectlGet(kinds, { namespace }, more = "") {
  return `kubectl get ${kinds.join(",")} ${namespace ? `-n ${namespace}` : "-A"}${more}`;
}

/** @param {{title: string, children?: any}} props */
function Fact({ title, children }) {
  return h("div", null, h("dt", null, title), h("dd", null, children));
}

/** @param {{facts: Facts, query: Record<string, string>}} props */
function Resources({ facts, query }) {
  const rows = [
    ...facts.brokers.rows.map((row) => ({ ...row, kind: "Broker" })),
    ...facts.topics.rows.map((row) => ({ ...row, kind: "Topic" })),
    ...facts.consumergroups.rows.map((row) => ({ ...row, kind: "ConsumerGroup" })),
    ...facts.users.rows.map((row) => ({ ...row, kind: "User" })),
  ];
  const sort = query["sort"] ?? "name";
  const command = kubectlGet(["brokers", "topics", "consumergroups", "users"].map((kind) => `${kind}.barnabas.dev`), facts);
  if (rows.length === 0) return h(Empty, { title: "There are no resources of ours.", command });
  return h("div", null, h(Table, {
    label: "Resources", wrap: true, source: localRows(rows, sort), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
    keyOf: (/** @type {any} */ row) => `${row.kind} ${row.namespace}/${row.name}`, columns: [
      { key: "name", title: "Name", cell: (/** @type {any} */ row) => row.name, text: (/** @type {any} */ row) => `${row.namespace}/${row.name}` },
      { key: "kind", title: "Kind", width: 136, cell: (/** @type {any} */ row) => row.kind },
      { key: "namespace", title: "Namespace", width: 152, cell: (/** @type {any} */ row) => row.namespace },
      { key: "state", title: "State", line: 1, width: 120, cell: (/** @type {any} */ row) => h(StateBadge, { state: row.state }) },
      { key: "sentence", title: "Why", sort: false, cell: (/** @type {any} */ row) => row.drift || row.sentence, text: (/** @type {any} */ row) => row.drift || row.sentence },
    ],
  }), h(PageCommand, { text: command }));
}

/** @param {{facts: Facts, query: Record<string, string>}} props */
function Pods({ facts, query }) {
  const sort = query["sort"] ?? "name";
  const command = kubectlGet(["pods"], facts, " -l app.kubernetes.io/name=barnabas,app.kubernetes.io/component=broker");
  if (facts.pods.rows.length === 0) return h(Empty, { title: "There are no pods of brokers.", command });
  return h("div", null, h(Table, {
    label: "Pods", wrap: true, source: localRows(facts.pods.rows, sort), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
    keyOf: (/** @type {any} */ row) => `${row.namespace}/${row.name}`, columns: [
      { key: "name", title: "Pod", cell: (/** @type {any} */ row) => row.name },
      { key: "phase", title: "State", line: 1, cell: (/** @type {any} */ row) => h(StateBadge, { state: row.ready ? "fine" : row.phase === "Running" || row.phase === "Terminating" ? "working" : "warning" }, row.reason ?? (row.ready ? "ready" : row.phase)) },
      { key: "restarts", title: "Restarts", numeric: true, width: 104, cell: (/** @type {any} */ row) => count(row.restarts) },
      { key: "node", title: "Node", cell: (/** @type {any} */ row) => row.node ?? "–" },
      { key: "started_ms", title: "Age", numeric: true, width: 104, cell: (/** @type {any} */ row) => (row.started_ms === null ? "–" : duration(Date.now() - row.started_ms)) },
    ],
  }), h(PageCommand, { text: command }));
}

/** @param {{facts: Facts, query: Record<string, string>}} props */
function Events({ facts, query }) {
  const sort = query["sort"] ?? "-time_ms";
  const command = kubectlGet(["events"], facts);
  if (facts.events.length === 0) return h(Empty, { title: "Kubernetes keeps no events about them: nothing has happened in the last hour.", command });
  return h("div", null, h(Table, {
    label: "Events", wrap: true, source: localRows(facts.events, sort), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
    keyOf: (/** @type {any} */ row) => `${row.time_ms} ${row.about} ${row.message}`, columns: [
      { key: "time_ms", title: "Time", width: 176, cell: (/** @type {any} */ row) => (row.time_ms === null ? "–" : moment(row.time_ms).slice(0, 19)) },
      { key: "reason", title: "What", line: 1, width: 176, cell: (/** @type {any} */ row) => h(StateBadge, { state: row.type === "Warning" ? "warning" : "fine" }, row.reason) },
      { key: "about", title: "Of", width: 200, cell: (/** @type {any} */ row) => row.about },
      { key: "message", title: "Message", sort: false, cell: (/** @type {any} */ row) => row.message },
    ],
  }), h(PageCommand, { text: command }));
}
