// The hour that the server keeps: series for charts, and the changes that a timeline shows (CON-123, 137).
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { StateShape } from "./state.js";
import { href } from "../router.js";
import { clockTime, moment } from "../words.js";

/** How often the server looks at the cluster. */
const INTERVAL_MS = 10_000;

/** @typedef {import("./state.js").State} State */
/** @typedef {{number: number, at_ms: number, kind: string, subject: string, words: string, state: State, topic: string | null, group: string | null}} Change */

/**
 * Columns by the order of the names; all null until the first answer.
 * @param {string[]} names
 * @returns {{t: number[], columns: ((number | null)[] | null)[]}}
 */
export function useSeries(names) {
  const query = new URLSearchParams(names.map((name) => ["names", name]));
  const { data } = usePolled(names.length > 0 ? `series?${query}` : null, { intervalMs: INTERVAL_MS });
  return data ?? { t: [], columns: names.map(() => null) };
}

/**
 * The latest changes, of one group or topic where one is named.
 * @param {{group?: string, topic?: string, limit?: number}} [about]
 * @returns {Change[]}
 */
export function useChanges({ group = "", topic = "", limit = 50 } = {}) {
  const query = new URLSearchParams(Object.entries({ group, topic, limit: String(limit) }).filter(([, value]) => value));
  const { data } = usePolled(`timeline?${query}`, { intervalMs: INTERVAL_MS });
  return data?.rows ?? [];
}

/**
 * What a chart marks.
 * @param {Change[]} changes
 * @returns {import("./chart.js").Mark[]}
 */
export function marksOf(changes) {
  return changes.map(({ at_ms, subject, words }) => ({ at: at_ms, title: `${subject}: ${words}` }));
}

/** @param {{changes: Change[]}} props */
export function Timeline({ changes }) {
  return h("ol", { class: "timeline" }, changes.map((change) => h("li", { key: change.number },
    h("time", { class: "muted", dateTime: new Date(change.at_ms).toISOString(), title: moment(change.at_ms) }, clockTime(change.at_ms).slice(0, 8)),
    h(StateShape, { state: change.state }),
    h("span", { class: "timeline-words" }, h(Subject, { change }), " ", change.words))));
}

/** What has changed, with a link to it where it has a page. @param {{change: Change}} props */
function Subject({ change }) {
  const { kind, subject, topic, group } = change;
  if (group !== null) return h("a", { href: href(["groups", group]) }, kind === "act" ? subject : group);
  if (kind === "broker") return h("a", { href: href(["brokers", subject]) }, `broker ${subject}`);
  if (kind === "controller") return h("strong", null, "controller");
  if (topic !== null) return h("a", { href: href(["topics", topic, "partitions"]) }, subject);
  return h("strong", null, subject);
}
