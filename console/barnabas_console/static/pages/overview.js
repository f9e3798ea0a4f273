// The start page: is the cluster well, which broker may go, what is wrong and why (CON-110).
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { PageCommand } from "../parts/command.js";
import { Timeline, useChanges } from "../parts/history.js";
import { Loaded } from "../parts/notices.js";
import { localRows } from "../parts/rows.js";
import { Sparkline } from "../parts/sparkline.js";
import { StateBadge, StateShape } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { brokerColumns } from "./broker_columns.js";
import { href, route, setQuery } from "../router.js";
import { bytes, count, duration, rate } from "../words.js";

/** @typedef {import("../parts/state.js").State} State */
/** @typedef {{cause: string, count: number, partitions: (string | {topic: string, partition: number, why?: string})[], state: State, next?: string}} Trouble */
/** @typedef {{group: string, state: State, lag: number | null, lag_seconds: number | null, words: string}} GroupWord */
/** @typedef {{direction: "in" | "out", records_per_second: number | null, records_trend: (number | null)[] | null, bytes_per_second: number | null, bytes_trend: (number | null)[] | null}} Traffic */
/**
 * @typedef {{health: {state: State, sentence: string}, brokers: import("./broker_columns.js").Broker[],
 *   troubles: Trouble[], groups: GroupWord[], traffic: Traffic[], command: string}} OverviewFacts
 */

export default function Overview() {
  const polled = usePolled("overview", { intervalMs: 2_000 });
  return h(Loaded, { polled, children: (/** @type {OverviewFacts} */ facts) => h(Facts, { facts }) });
}

/** @param {{facts: OverviewFacts}} props */
function Facts({ facts }) {
  const sort = route.value.query["sort"] ?? "id";
  return h("div", { class: "overview" },
    h("h1", { class: "health" }, h(StateBadge, { state: facts.health.state }, facts.health.sentence)),
    h("section", { "aria-label": "Brokers" },
      h(Table, {
        label: "Brokers", columns: overviewColumns(facts.brokers), source: localRows(facts.brokers, sort), keyOf: (/** @type {import("./broker_columns.js").Broker} */ broker) => broker.id, wrap: true,
        hrefOf: (/** @type {import("./broker_columns.js").Broker} */ broker) => href(["brokers", String(broker.id)]), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
      })),
    h(TrafficLines, { traffic: facts.traffic }),
    facts.troubles.length > 0 && h("section", null, h("h2", null, "Troubles"), h("ul", { class: "troubles" }, facts.troubles.map((trouble) => h(TroubleLine, { key: trouble.cause, trouble })))),
    facts.groups.length > 0 && h("section", null, h("h2", null, "Groups that wait"), h("ul", { class: "troubles" }, facts.groups.map((group) => h(GroupLine, { key: group.group, group })))),
    h(LastChanges, {}),
    h(PageCommand, { text: facts.command }));
}

const DIRECTIONS = { in: { title: "In", records: "written" }, out: { title: "Out", records: "read by groups" } };

/** What comes to the cluster and what goes, with the last hour; nothing before two looks. @param {{traffic: Traffic[]}} props */
function TrafficLines({ traffic }) {
  const known = traffic.filter(({ records_trend: records, bytes_trend: sizes }) => records || sizes);
  if (known.length === 0) return null;
  return h("section", null, h("h2", null, "Traffic"),
    h("dl", { class: "traffic" }, known.map(({ direction, records_per_second: records, records_trend: recordsTrend, bytes_per_second: size, bytes_trend: sizesTrend }) => {
      const { title, records: verb } = DIRECTIONS[direction];
      return h("div", { key: direction }, h("dt", null, title),
        recordsTrend && h("dd", null, h("span", null, records === null ? "–" : `${rate(records).replace("/s", " records/s")} ${verb}`), h(Sparkline, { values: recordsTrend, label: `Records ${verb} in the last hour` })),
        sizesTrend && h("dd", null, h("span", null, size === null ? "–" : `${bytes(size)}/s with replication`), h(Sparkline, { values: sizesTrend, label: `Bytes ${direction} in the last hour` })));
    })));
}

/** What has changed in the last hours. */
function LastChanges() {
  const changes = useChanges({ limit: 12 });
  if (changes.length === 0) return null;
  return h("section", null, h("h2", null, "Timeline"), h(Timeline, { changes }));
}

/** Without what only the brokers' own page is asked for. @param {import("./broker_columns.js").Broker[]} brokers */
function overviewColumns(brokers) {
  return brokerColumns(brokers).filter(({ key }) => key !== "rack" && key !== "loop_lag_ms");
}

/** One click shows which partitions and why. @param {{trouble: Trouble}} props */
function TroubleLine({ trouble }) {
  const { cause, partitions, state, next } = trouble;
  const shown = partitions.map((entry) => (typeof entry === "string" ? partitionOf(entry) : entry));
  return h("li", null, h("details", null,
    h("summary", null, h(StateBadge, { state }, cause)),
    h("ul", { class: "trouble-partitions" }, shown.map(({ topic, partition, why }) =>
      h("li", { key: `${topic}-${partition}` }, h("a", { href: href(["topics", topic, "partitions"]) }, `${topic}-${partition}`), why && ` ${why}`))),
    trouble.count > shown.length && h("p", { class: "muted" }, `and ${count(trouble.count - shown.length)} more`),
    next && h("p", { class: "muted" }, next)));
}

/**
 * `orders-4`: the number is after the last dash.
 * @param {string} text
 * @returns {{topic: string, partition: number, why?: string}}
 */
function partitionOf(text) {
  const dash = text.lastIndexOf("-");
  return { topic: text.slice(0, dash), partition: Number(text.slice(dash + 1)) };
}

/** @param {{group: GroupWord}} props */
function GroupLine({ group }) {
  return h("li", { class: "group-line" }, h("a", { href: href(["groups", group.group]) }, h(StateShape, { state: group.state }), h("span", { class: "group-name" }, group.group)),
    h("span", null, group.words || `lag ${count(group.lag)}${group.lag_seconds === null ? "" : `, ${duration(group.lag_seconds * 1000)}`}`));
}
