// Where the rows of a table come from: a list that is all here, or pages of one that the server sorts.
import { useRef, useState } from "../vendor/vendor.js";
import { usePolled } from "../api.js";

/** Rows a request asks for. */
const PAGE_ROWS = 100;

/**
 * A list that is here as a whole, sorted by one of its fields.
 * @template Row
 * @param {Row[]} rows
 * @param {string} sort a field, with `-` before it from the largest
 * @param {(row: Row, key: string) => unknown} [valueOf] what a column is sorted by, where it is no field
 * @returns {import("./table.js").RowSource<Row>}
 */
export function localRows(rows, sort, valueOf = (row, key) => /** @type {any} */ (row)[key]) {
  const key = sort.replace(/^-/, "");
  const turned = sort.startsWith("-") ? -1 : 1;
  const sorted = sort ? rows.toSorted((one, other) => compared(valueOf(one, key), valueOf(other, key)) * turned) : rows;
  return { total: sorted.length, row: (index) => sorted[index] };
}

const names = new Intl.Collator("en", { numeric: true });

/**
 * What is unknown comes before everything.
 * @param {unknown} one
 * @param {unknown} other
 */
function compared(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  if (typeof one === "number" && typeof other === "number") return one - other;
  return names.compare(String(one), String(other));
}

/**
 * A list that the server searches and sorts: `{total, rows, as_of_ms}` by `offset` and `limit`. The pages
 * that are seen are polled; rows of another search stay until the first of the new one arrive.
 * @template Row
 * @param {string} path without a query
 * @param {Record<string, string | undefined>} query search and sort
 * @param {{intervalMs?: number}} [options]
 */
export function useServerRows(path, query, options) {
  const [range, setRange] = useState(/** @type {[number, number]} */ ([0, 1]));
  const search = new URLSearchParams(Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : [])));
  const identity = `${path}?${search}`;
  const firstPage = Math.floor(range[0] / PAGE_ROWS);
  const lastPage = Math.floor(Math.max(range[0], range[1] - 1) / PAGE_ROWS);
  const first = usePolled(pagePath(path, search, firstPage), options);
  const last = usePolled(lastPage === firstPage ? null : pagePath(path, search, lastPage), options);
  /** @type {import("../vendor/vendor.js").RefObject<{identity: string, total: number, pages: Map<number, Row[]>}>} */
  const known = useRef({ identity: "", total: 0, pages: new Map() });
  if (first.data) {
    // Pages out of sight are kept to scroll back to; they are read anew when they are seen.
    if (known.current.identity !== identity) known.current = { identity, total: 0, pages: new Map() };
    known.current.total = first.data.total;
    known.current.pages.set(firstPage, first.data.rows);
    if (last.data && lastPage !== firstPage) known.current.pages.set(lastPage, last.data.rows);
  }
  const { total, pages } = known.current;
  return {
    polled: { ...first, data: first.data ?? (known.current.identity ? { total, rows: [], as_of_ms: 0 } : null) },
    onRange: (/** @type {number} */ from, /** @type {number} */ to) => setRange((old) => (old[0] === from && old[1] === to ? old : [from, to])),
    /** @type {import("./table.js").RowSource<Row>} */
    source: { total, row: (index) => pages.get(Math.floor(index / PAGE_ROWS))?.[index % PAGE_ROWS] },
  };
}

/**
 * @param {string} path
 * @param {URLSearchParams} search
 * @param {number} page
 */
function pagePath(path, search, page) {
  const query = new URLSearchParams(search);
  query.set("offset", String(page * PAGE_ROWS));
  query.set("limit", String(PAGE_ROWS));
  return `${path}?${query}`;
}
