// Small pictures in rows: a line of the last hour, and a bar of what is used. SVG, no library.
import { h } from "../vendor/vendor.js";

/**
 * A line without axes; gaps stay gaps (CON-152).
 * @param {{values: (number | null)[], label: string, width?: number, height?: number}} props
 */
export function Sparkline({ values, label, width = 96, height = 20 }) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(1e-9, ...known);
  // With room for the dot at the last value.
  const step = (width - 4) / Math.max(1, values.length - 1);
  /** @param {number} index */
  const x = (index) => (2 + index * step).toFixed(1);
  /** @param {number} value */
  const y = (value) => (height - 2 - (value / top) * (height - 4)).toFixed(1);
  const last = values.findLastIndex((value) => value !== null);
  let path = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value === null) {
      pen = "M";
      return;
    }
    // What stands alone between gaps is a dot.
    const alone = pen === "M" && (values[index + 1] ?? null) === null ? "h0" : "";
    path += `${pen}${x(index)} ${y(value)}${alone}`;
    pen = "L";
  });
  return h("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    h("path", { d: path, fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-linejoin": "round", "stroke-linecap": "round" }),
    last >= 0 && h("circle", { cx: x(last), cy: y(values[last] ?? 0), r: 2, fill: "currentColor" }));
}

/**
 * How much of a whole is used.
 * @param {{share: number, label: string, children?: any}} props
 */
export function Meter({ share, label, children }) {
  const used = Math.min(1, Math.max(0, share));
  const state = used >= 0.9 ? "critical" : used >= 0.75 ? "warning" : "plain";
  return h("span", { class: "meter", title: label },
    h("svg", { class: `meter-bar ${state}`, viewBox: "0 0 48 8", width: 48, height: 8, role: "img", "aria-label": label },
      h("rect", { class: "meter-back", width: 48, height: 8, rx: 2 }),
      h("rect", { class: "meter-fill", width: Math.max(1, used * 48), height: 8, rx: 2 })),
    h("span", null, children));
}
