// Tables: sorted by their headings, walked by `j` and `k`, and with as many rows in the page as are seen.
//
// Rows have one height, so that ten thousand of them are a few dozen elements between two spacers; the row
// that has the focus stays in the page wherever one scrolls. Narrow pages show two lines a row.
import { Fragment, h, useCallback, useEffect, useLayoutEffect, useRef, useState } from "../vendor/vendor.js";
import { useKey } from "../keyboard.js";
import { navigate } from "../router.js";
import { narrow } from "./narrow.js";

/**
 * `width` in pixels, otherwise a share of what is left; `sort` where the heading sorts; `line` says where a
 * narrow page shows it: 1 beside the name, 2 below with its title (`bare`: without), 0 not at all.
 * @template Row
 * @typedef {{key: string, title: string, cell: (row: Row) => any, numeric?: boolean, width?: number,
 *   sort?: boolean, line?: 0 | 1 | 2, bare?: boolean, hint?: string, text?: (row: Row) => string}} Column
 */

/**
 * `row(index)` may be undefined: not read yet.
 * @template Row
 * @typedef {{total: number, row: (index: number) => Row | undefined}} RowSource
 */

/**
 * The first column names the row and is its heading.
 * @template Row
 * @typedef {{label: string, columns: Column<Row>[], source: RowSource<Row>, keyOf: (row: Row) => string | number,
 *   hrefOf?: (row: Row) => string | undefined, onOpen?: (row: Row) => void, selected?: string | number | null, sort?: string,
 *   onSort?: (sort: string) => void, onRange?: (first: number, last: number) => void, wrap?: boolean,
 *   classOf?: (row: Row) => string}} TableProps
 */

const OVERSCAN = 12;
/** Fewer rows than this are all in the page. */
const WINDOWED_MIN = 120;

/**
 * Rows are `any` here: Preact's types carry no parameters of a component. Where columns are made, they are typed.
 * @param {TableProps<any>} props
 */
export function Table(props) {
  const { label, columns, source, sort = "", onSort, wrap = false } = props;
  /** @type {import("../vendor/vendor.js").RefObject<HTMLTableElement | null>} */
  const table = useRef(null);
  const [focused, setFocused] = useState(-1);
  const [first, last] = useWindow(table, source.total, wrap, props.onRange);
  useRowKeys(table, source.total, focused, setFocused, props);

  /** @param {FocusEvent} event */
  const onFocus = (event) => setFocused(indexOf(event.target));
  const shown = shownRows(first, last, focused, source.total);
  return h(Fragment, null,
    narrow.value && onSort && h(SortChoice, { columns: columns, sort, onSort }),
    h("table", { ref: table, class: `rows${wrap ? " wrap" : ""}${narrow.value ? " narrow" : ""}`, "aria-label": label, "aria-rowcount": source.total + 1, onFocusCapture: onFocus },
      !narrow.value && h("colgroup", null, columns.map(({ key, width }) => h("col", { key, style: width ? { width: `${width}px` } : {} }))),
      h("thead", { class: narrow.value ? "unseen" : undefined }, h("tr", { "aria-rowindex": 1 },
        narrow.value
          ? h("th", { scope: "col" }, columns.map((column) => column.title).join(", "))
          : columns.map((column) => h(Heading, { key: column.key, column: column, sort, onSort })))),
      h("tbody", null, body(props, shown))));
}

/**
 * @param {TableProps<any>} props
 * @param {number[]} shown indexes in order
 */
function body(props, shown) {
  const { source, columns } = props;
  const parts = [];
  let next = 0;
  /** @param {number} until */
  const gap = (until) => {
    if (until > next) parts.push(h(Spacer, { key: `gap-${next === 0 ? "top" : next}`, rows: until - next, columns: narrow.value ? 1 : columns.length }));
  };
  for (const index of shown) {
    gap(index);
    parts.push(row(props, index));
    next = index + 1;
  }
  gap(source.total);
  return parts;
}

/** @param {{rows: number, columns: number}} props */
function Spacer({ rows, columns }) {
  return h("tr", { class: "spacer", "aria-hidden": "true", style: { height: `calc(${rows} * var(--row-height))` } }, h("td", { colSpan: columns }));
}

/**
 * @param {TableProps<any>} props
 * @param {number} index
 */
function row(props, index) {
  const { columns, source, keyOf, hrefOf, onOpen, selected, classOf } = props;
  const data = source.row(index);
  if (data === undefined) {
    return h("tr", { key: `waiting-${index}`, class: "waiting", "aria-rowindex": index + 2, "data-index": index },
      h("td", { colSpan: narrow.value ? 1 : columns.length }, h("span", { class: "bar" })));
  }
  const key = keyOf(data);
  const to = hrefOf?.(data);
  /** @param {MouseEvent} event */
  const open = (event) => {
    const inner = event.target instanceof Element && event.target.closest("a, button, input, select, summary");
    if (inner || getSelection()?.toString()) return;
    if (to) navigate(to);
    else onOpen?.(data);
  };
  const opens = to !== undefined || onOpen !== undefined;
  return h("tr", {
    key, "aria-rowindex": index + 2, "data-index": index, onClick: opens ? open : undefined,
    class: `${opens ? "opens " : ""}${classOf?.(data) ?? ""}`, "aria-current": selected !== undefined && selected === key ? "true" : undefined,
  }, narrow.value ? h("th", { scope: "row" }, h(TwoLines, { columns: columns, data, to, onOpen })) : columns.map((column, place) =>
    h(place === 0 ? "th" : "td", { key: column.key, scope: place === 0 ? "row" : undefined, class: column.numeric ? "numeric" : undefined, title: column.text?.(data) },
      place === 0 ? h(Name, { data, cell: column.cell, to, onOpen }) : column.cell(data))));
}

/** What opens the row: a link where it has an address. @param {{data: any, cell: (row: any) => any, to?: string | undefined, onOpen?: ((row: any) => void) | undefined}} props */
function Name({ data, cell, to, onOpen }) {
  if (to !== undefined) return h("a", { class: "row-name", href: to }, cell(data));
  if (onOpen) return h("button", { type: "button", class: "row-name", onClick: () => onOpen(data) }, cell(data));
  return h("span", { class: "row-name" }, cell(data));
}

/** @param {{columns: Column<any>[], data: any, to?: string | undefined, onOpen?: ((row: any) => void) | undefined}} props */
function TwoLines({ columns, data, to, onOpen }) {
  const [name, ...others] = columns;
  if (!name) return null;
  const beside = others.filter((column) => column.line === 1);
  const below = others.filter((column) => (column.line ?? 2) === 2);
  return h(Fragment, null,
    h("span", { class: "line" }, h(Name, { data, cell: name.cell, to, onOpen }), beside.map((column) => h("span", { key: column.key, class: "beside" }, column.cell(data)))),
    h("span", { class: "line below" }, below.map((column) => {
      const fact = column.cell(data);
      if (fact === "" || fact === null || fact === undefined) return null;
      return h("span", { key: column.key, class: "fact" }, !column.bare && h("span", { class: "fact-title" }, column.title, " "), fact);
    })));
}

/** @param {{column: Column<any>, sort: string, onSort?: ((sort: string) => void) | undefined}} props */
function Heading({ column, sort, onSort }) {
  const { key, title, numeric, hint } = column;
  const direction = sort === key ? "ascending" : sort === `-${key}` ? "descending" : undefined;
  const sortable = column.sort !== false && onSort;
  // Beside numbers it stands before the title, which keeps its edge.
  const arrow = h("span", { class: "direction", "aria-hidden": "true" }, direction === "ascending" ? "▴" : direction === "descending" ? "▾" : "");
  return h("th", { scope: "col", class: numeric ? "numeric" : undefined, "aria-sort": sortable ? (direction ?? "none") : undefined, title: hint },
    sortable
      ? h("button", { type: "button", class: "sorter", onClick: () => onSort(nextSort(key, direction, numeric)) },
        numeric && arrow, title, !numeric && arrow)
      : title);
}

/**
 * Numbers are sorted from the largest first, names from A.
 * @param {string} key
 * @param {"ascending" | "descending" | undefined} direction
 * @param {boolean | undefined} numeric
 */
function nextSort(key, direction, numeric) {
  if (direction === undefined) return numeric ? `-${key}` : key;
  return direction === "ascending" ? `-${key}` : key;
}

/** @param {{columns: Column<any>[], sort: string, onSort: (sort: string) => void}} props */
function SortChoice({ columns, sort, onSort }) {
  const choices = columns.filter((column) => column.sort !== false);
  return h("label", { class: "sort-choice" }, "Sorted by ",
    h("select", { value: sort, onChange: (/** @type {Event} */ event) => onSort(/** @type {HTMLSelectElement} */ (event.target).value) },
      choices.map(({ key, title, numeric }) => {
        const value = nextSort(key, sort.replace("-", "") === key ? (sort.startsWith("-") ? "ascending" : "descending") : undefined, numeric);
        return h("option", { key, value, selected: value === sort }, title);
      })));
}

/** @param {EventTarget | null} target */
function indexOf(target) {
  const found = target instanceof Element ? target.closest("tr[data-index]") : null;
  return found instanceof HTMLElement ? Number(found.dataset.index) : -1;
}

/**
 * @param {number} first
 * @param {number} last exclusive
 * @param {number} focused -1 for none
 * @param {number} total
 */
function shownRows(first, last, focused, total) {
  const indexes = [];
  if (focused >= 0 && focused < first && focused < total) indexes.push(focused);
  for (let index = first; index < last; index += 1) indexes.push(index);
  if (focused >= last && focused < total) indexes.push(focused);
  return indexes;
}

/**
 * The rows that are seen, and some around them: first, and last exclusive.
 * @param {import("../vendor/vendor.js").RefObject<HTMLTableElement | null>} table
 * @param {number} total
 * @param {boolean} wrap
 * @param {((first: number, last: number) => void) | undefined} onRange
 * @returns {[number, number]}
 */
function useWindow(table, total, wrap, onRange) {
  const [range, setRange] = useState(/** @type {[number, number]} */ ([0, Math.ceil(innerHeight / 32) + OVERSCAN]));
  const windowed = !wrap && total > WINDOWED_MIN;
  const measure = useCallback(() => {
    const rows = table.current?.tBodies[0];
    if (!rows || !windowed) return;
    const height = parseFloat(getComputedStyle(rows).getPropertyValue("--row-height")) || 32;
    const top = -rows.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - OVERSCAN);
    const last = Math.min(total, Math.ceil((top + innerHeight) / height) + OVERSCAN);
    setRange((old) => (old[0] === first && old[1] === last ? old : [first, Math.max(first, last)]));
  }, [total, windowed]);
  useLayoutEffect(measure, [measure, narrow.value]);
  useEffect(() => {
    if (!windowed) return undefined;
    addEventListener("scroll", measure, { passive: true, capture: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure, { capture: true });
      removeEventListener("resize", measure);
    };
  }, [measure, windowed]);
  const [first, last] = windowed ? [Math.min(range[0], total), Math.min(range[1], total)] : [0, total];
  useEffect(() => onRange?.(first, last), [first, last]);
  return [first, last];
}

/**
 * `j` and `k`: the focus goes from row to row.
 * @param {import("../vendor/vendor.js").RefObject<HTMLTableElement | null>} table
 * @param {number} total
 * @param {number} focused
 * @param {(index: number) => void} setFocused
 * @param {TableProps<any>} props
 */
function useRowKeys(table, total, focused, setFocused, props) {
  const wanted = useRef(-1);
  const opens = props.hrefOf !== undefined || props.onOpen !== undefined;
  /** @param {number} step */
  const move = (step) => {
    if (!opens || total === 0) return;
    // Keys may come faster than paints: where the last one wants to go counts.
    const at = wanted.current >= 0 ? wanted.current : indexOf(document.activeElement);
    const next = at >= 0 ? Math.min(total - 1, Math.max(0, at + step)) : Math.max(0, Math.min(total - 1, focused));
    wanted.current = next;
    setFocused(next);
  };
  useKey("j", useCallback(() => move(1), [total, focused, opens]));
  useKey("k", useCallback(() => move(-1), [total, focused, opens]));
  useLayoutEffect(() => {
    const target = wanted.current < 0 ? null : table.current?.querySelector(`tr[data-index="${wanted.current}"] .row-name`);
    if (target instanceof HTMLElement) {
      target.focus({ preventScroll: true });
      target.closest("tr")?.scrollIntoView({ block: "nearest" });
      wanted.current = -1;
    }
    // Rows that came before the one with the focus have moved it.
    const at = table.current?.contains(document.activeElement) ? indexOf(document.activeElement) : focused;
    if (at >= 0 && at !== focused) setFocused(at);
  });
}
