// A state as shape, word and colour, never colour alone (CON-151).
import { h } from "../vendor/vendor.js";

/** @typedef {"fine" | "warning" | "critical" | "working" | "unknown"} State */

const SHAPES = {
  fine: h("circle", { cx: 6, cy: 6, r: 5 }),
  warning: h("path", { d: "M6 .8 11.6 11H.4Z" }),
  critical: h("rect", { x: 1, y: 1, width: 10, height: 10 }),
  working: h("path", { d: "M6 1.2a4.8 4.8 0 1 0 4.8 4.8M6 1.2 8.6 3.4M6 1.2 8.4-.6", fill: "none", stroke: "currentColor", "stroke-width": 1.8 }),
  unknown: h("circle", { cx: 6, cy: 6, r: 4.4, fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": "2 1.6" }),
};

/** @param {{state: State}} props */
export function StateShape({ state }) {
  return h("svg", { class: `shape ${state}`, viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true", fill: "currentColor" }, SHAPES[state]);
}

/**
 * @param {{state: State, children?: any, title?: string}} props the word; without one, the state's own
 */
export function StateBadge({ state, children, title }) {
  return h("span", { class: `state ${state}`, title }, h(StateShape, { state }), h("span", null, children ?? state));
}
