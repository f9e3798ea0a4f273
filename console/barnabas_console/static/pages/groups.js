// The groups of the cluster: state, lag in records and seconds, and why, all sortable (CON-118).
import { h } from "../vendor/vendor.js";
import { PageCommand } from "../parts/command.js";
import { Export } from "../parts/export.js";
import { Filter } from "../parts/filter.js";
import { Lazy } from "../parts/lazy.js";
import { Empty, Loaded } from "../parts/notices.js";
import { useServerRows } from "../parts/rows.js";
import { Sparkline } from "../parts/sparkline.js";
import { StateShape } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { href, setQuery } from "../router.js";
import { count, counted, duration } from "../words.js";

/**
 * @typedef {{group: string, health: import("../parts/state.js").State, words: string, state: string, type: string, application: string | null,
 *   members: number | null, lag: number | null, lag_known: number | null, lag_seconds: number | null, trend: (number | null)[] | null}} GroupRow
 */

const loadGroup = () => import("./group.js");

/** @param {{cluster: string, params: string[], query: Record<string, string>}} props */
export default function Groups({ cluster, params, query }) {
  if (params.length > 0) return h(Lazy, { load: loadGroup, props: { cluster, params, query } });
  return h(GroupList, { query });
}

/** @param {{query: Record<string, string>}} props */
function GroupList({ query }) {
  const { q = "", sort = "health" } = query;
  const { polled, source, onRange } = useServerRows("groups", { q, sort });
  return h("div", null,
    h("div", { class: "page-head" }, h("h1", null, "Groups"),
      h(Filter, { value: q, label: "Search groups" }),
      polled.data && h("span", { class: "muted", role: "status" }, q ? `${count(source.total)} found` : counted(source.total, "group")),
      source.total > 0 && h("span", { class: "push" }, h(Export, { path: "exports/groups", query: { q, sort } }))),
    h(Loaded, { polled, rows: 12, children: () => (source.total === 0
      ? (q ? h(Empty, { title: `No group has “${q}” in its name.` }) : h(Empty, { title: "There is no group yet.", command: "barnabas consume orders --group billing" }, "The first consumer that names one makes it:"))
      : h(Table, {
        label: "Groups", columns: columns(), source, keyOf: (/** @type {any} */ row) => row.group, onRange,
        hrefOf: (/** @type {any} */ row) => href(["groups", row.group]), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
      })) }),
    h(PageCommand, { text: "barnabas group list" }));
}

/** @returns {import("../parts/table.js").Column<GroupRow>[]} */
function columns() {
  return [
    { key: "group", title: "Group", cell: groupName, text: (row) => row.group },
    { key: "health", title: "State", bare: true, cell: words, text: (row) => `${row.state}. ${row.words}` },
    { key: "members", title: "Members", numeric: true, width: 112, line: 0, cell: (row) => count(row.members) },
    { key: "lag", title: "Lag", hint: "Records left to read", numeric: true, width: 120, line: 1, cell: lag },
    { key: "lag_seconds", title: "Behind", hint: "How long ago the next record was written", numeric: true, width: 104, line: 0, cell: (row) => behind(row.lag_seconds) },
    { key: "trend", title: "Last hour", width: 120, sort: false, line: 0, cell: (row) => (row.trend ? h(Sparkline, { values: row.trend, label: `lag of ${row.group} in the last hour` }) : null) },
  ];
}

/** What there is to say; only what is wrong stands out. @param {GroupRow} row */
export function words({ health, words: said, state }) {
  return h("span", { class: `group-words ${health === "fine" ? "fine" : ""}` }, h(StateShape, { state: health }), said || state);
}

/** @param {GroupRow} row */
function groupName({ group, application, type }) {
  return [group, application && h("span", { key: "a", class: "tag" }, application), type === "Share" && h("span", { key: "s", class: "tag" }, "share")];
}

/** "1,204", or "1,204 +" where one partition's is not known. @param {GroupRow} row */
function lag({ lag: whole, lag_known: known }) {
  return whole === null && known ? `${count(known)} +` : count(whole);
}

/** @param {number | null} seconds */
export function behind(seconds) {
  return seconds === null ? "–" : seconds === 0 ? "" : duration(seconds * 1_000);
}
