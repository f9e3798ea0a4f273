// Icons: those of the navigation, which narrow pages show, and the lock of what one may not do.
import { h } from "../vendor/vendor.js";

/** @type {Record<string, string>} */
const PATHS = {
  overview: "M3 11a7 7 0 1 1 14 0M10 11l3-4M3 15h14",
  brokers: "M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01",
  topics: "M4 5h12M4 10h12M4 15h8",
  groups: "M7 9a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M2.5 16a4.5 4.5 0 0 1 9 0M13 4.3a2.5 2.5 0 0 1 0 4.4M14 11.8a4.5 4.5 0 0 1 3.5 4.2",
  cluster: "M10 3v5M10 8l-5 6M10 8l5 6M8 3h4v3H8zM3 14h4v3H3zM13 14h4v3h-4z",
  kubernetes: "M10 2.5l6.5 3.2 1.6 7-4.5 5.3H6.4L1.9 12.7l1.6-7zM10 10m-2 0a2 2 0 1 0 4 0 2 2 0 1 0-4 0M10 2.5V8M10 12v5.5",
};

/** @param {{name: string}} props */
export function NavigationIcon({ name }) {
  return h("svg", { viewBox: "0 0 20 20", width: 20, height: 20, fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" },
    h("path", { d: PATHS[name] ?? PATHS["overview"] }));
}

export function LockShape() {
  return h("svg", { class: "shape lock", viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" },
    h("path", { d: "M3.4 5.4V3.6a2.6 2.6 0 0 1 5.2 0v1.8", fill: "none", stroke: "currentColor", "stroke-width": 1.4 }),
    h("rect", { x: 1.8, y: 5.2, width: 8.4, height: 6, rx: 1, fill: "currentColor" }));
}
