// A JSON value as a tree that can be folded.
import { h, useState } from "../vendor/vendor.js";
import { NumberText } from "./json_value.js";

/** @typedef {import("./json_value.js").JsonValue} JsonValue */

const OPEN_DEPTH = 3;
const CHILDREN_SHOWN = 100;

/** @param {{value: JsonValue}} props */
export function JsonTree({ value }) {
  return h("div", { class: "tree mono" }, h(Node, { value, depth: 0 }));
}

/** @param {{name?: string | undefined, value: JsonValue, depth: number}} props */
function Node({ name, value, depth }) {
  const label = name === undefined ? null : [h("span", { class: "tree-name" }, name), ": "];
  const inner = childrenOf(value);
  if (inner === null || inner.length === 0) return h("div", { class: "tree-leaf" }, label, inner === null ? leaf(value) : isList(value) ? "[]" : "{}");
  return h(Folded, { label, value, inner, depth });
}

/** @param {{label: any, value: JsonValue, inner: [string, JsonValue][], depth: number}} props */
function Folded({ label, value, inner, depth }) {
  const [open, setOpen] = useState(depth < OPEN_DEPTH);
  const [shown, setShown] = useState(CHILDREN_SHOWN);
  const list = isList(value);
  const size = `${inner.length} ${list ? "items" : "members"}`;
  return h("details", { open, onToggle: (/** @type {Event} */ event) => {
    event.stopPropagation();
    setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open);
  } },
    h("summary", null, label, h("span", { class: "muted" }, list ? "[" : "{", " ", open ? "" : `${size} ${list ? "]" : "}"}`)),
    open && h("div", { class: "tree-inner" },
      inner.slice(0, shown).map(([name, one], index) => h(Node, { key: index, name, value: one, depth: depth + 1 })),
      inner.length > shown && h("button", { type: "button", class: "quiet", onClick: () => setShown(shown + 1_000) }, `${inner.length - shown} more`)));
}

/** @param {JsonValue} value */
function isList(value) {
  return value !== null && typeof value === "object" && "items" in value;
}

/**
 * @param {JsonValue} value
 * @returns {[string, JsonValue][] | null} null for a leaf
 */
function childrenOf(value) {
  if (value === null || typeof value !== "object" || value instanceof NumberText) return null;
  if ("members" in value) return value.members;
  return value.items.map((item, index) => [String(index), item]);
}

/** @param {JsonValue} value */
function leaf(value) {
  if (value instanceof NumberText) return h("span", { class: "tree-number" }, value.text);
  if (typeof value === "string") return h("span", { class: "tree-text" }, JSON.stringify(value));
  return h("span", { class: "tree-word" }, String(value));
}
