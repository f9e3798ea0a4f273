// Lines over time, by uPlot, which is loaded when the first chart is seen; also as a table (CON-152).
//
// Gaps stay gaps, the unit is in the title, and the crosshair is shared by all charts of a page.
import { h, useEffect, useRef, useState } from "../vendor/vendor.js";
import { theme, utc } from "../preferences.js";
import { clockTime } from "../words.js";

/** @typedef {{label: string, values: (number | null)[]}} Line */
/** @typedef {{at: number, title: string}} Mark something that happened, at a time in ms */

const HEIGHT = 180;
const LINES_MAX = 8;
/** Room for a time with seconds. */
const TICK_WIDTH = 60;
const TICK_SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400];
/** Steps between ticks of what there are only whole ones of. */
const WHOLE_STEPS = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
const TABLE_ROWS_MAX = 360;

/**
 * @param {{title: string, unit: string, t: number[], lines: Line[], marks?: Mark[], whole?: boolean, format?: (value: number) => string}} props
 *   `t` in ms since the epoch, ascending; eight lines at most; `whole` where there are no halves
 */
export function Chart({ title, unit, t, lines, marks = [], whole = false, format = String }) {
  const [asTable, setAsTable] = useState(false);
  const shown = lines.slice(0, LINES_MAX);
  return h("figure", { class: "chart" },
    h("figcaption", null, h("span", { class: "chart-title" }, `${title}, ${unit}`),
      h("button", { type: "button", class: "quiet", "aria-pressed": asTable, onClick: () => setAsTable(!asTable) }, "Table")),
    asTable
      ? h(TimeTable, { title, t, lines: shown, format })
      : h(Drawing, { title, t, lines: shown, marks, whole, format }));
}

/** @param {{title: string, t: number[], lines: Line[], marks: Mark[], whole: boolean, format: (value: number) => string}} props */
function Drawing({ title, t, lines, marks, whole, format }) {
  /** @type {import("../vendor/vendor.js").RefObject<HTMLDivElement | null>} */
  const box = useRef(null);
  /** @type {import("../vendor/vendor.js").RefObject<import("../vendor/charts.js").default | null>} */
  const plot = useRef(null);
  const facts = useRef({ marks, format });
  facts.current = { marks, format };
  const data = /** @type {any} */ ([t.map((ms) => ms / 1000), ...lines.map((line) => line.values)]);
  const latest = useRef(data);
  latest.current = data;
  const labels = lines.map((line) => line.label).join("\n");
  // What changes the drawing itself makes it anew; new values are given to the one there is.
  const look = `${labels}|${theme.value}|${utc.value}`;

  useEffect(() => {
    const place = box.current;
    if (!place) return undefined;
    let gone = false;
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: place.clientWidth, height: HEIGHT }));
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      void loadLibrary().then((Plot) => {
        if (gone) return;
        plot.current = new Plot(options(Plot, place, labels.split("\n"), whole, facts), latest.current, place);
        resized.observe(place);
      });
    });
    seen.observe(place);
    return () => {
      gone = true;
      seen.disconnect();
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [look]);
  useEffect(() => plot.current?.setData(data));

  const ends = lines.map(({ label, values }) => `${label} ${values.at(-1) === null || values.at(-1) === undefined ? "unknown" : format(/** @type {number} */ (values.at(-1)))}`);
  return h("div", { ref: box, class: "drawing", role: "img", "aria-label": `${title}; now: ${ends.join(", ")}` });
}

/** @type {Promise<typeof import("../vendor/charts.js").default> | undefined} */
let library;

function loadLibrary() {
  library ??= (async () => {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = new URL("../vendor/uplot.css", import.meta.url).href;
    document.head.append(sheet);
    return (await import("../vendor/charts.js")).default;
  })();
  return library;
}

/**
 * @param {typeof import("../vendor/charts.js").default} Plot
 * @param {HTMLElement} place
 * @param {string[]} labels
 * @param {boolean} whole
 * @param {{current: {marks: Mark[], format: (value: number) => string}}} facts
 * @returns {import("../vendor/charts.js").default.Options}
 */
function options(Plot, place, labels, whole, facts) {
  const style = getComputedStyle(place);
  /**
   * A colour as the canvas takes it: which of its two values holds is decided where it is used.
   * @param {string} name
   */
  const colour = (name) => {
    place.style.color = `var(${name})`;
    const { color } = style;
    place.style.color = "";
    return color;
  };
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `12px ${style.getPropertyValue("--sans").trim()}` };
  return {
    width: place.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => (utc.peek() ? Plot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
    cursor: { sync: { key: "time" }, points: { size: 6 } },
    legend: { live: true },
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [
      // Ticks closer than a minute would all say the same one, so they say seconds, too.
      { ...axis, space: TICK_WIDTH, incrs: TICK_SECONDS, values: (_plot, times, _index, _space, step) => times.map((seconds) => clockTime(seconds * 1000).slice(0, step < 60 ? 8 : 5)) },
      { ...axis, size: 64, ...(whole && { incrs: WHOLE_STEPS }), values: (_plot, values) => values.map((value) => facts.current.format(value)) },
    ],
    series: [
      { label: "time", value: (_plot, seconds) => (seconds === null ? "–" : clockTime(seconds * 1000).slice(0, 8)) },
      ...labels.map((label, index) => ({
        label, stroke: colour(`--series-${index + 1}`), width: 1.5, spanGaps: false, points: { show: false },
        value: (/** @type {any} */ _plot, /** @type {number | null} */ value) => (value === null || value === undefined ? "–" : facts.current.format(value)),
      })),
    ],
    hooks: { draw: [(plot) => drawMarks(plot, facts.current.marks, colour("--muted"))] },
  };
}

/**
 * @param {import("../vendor/charts.js").default} plot
 * @param {Mark[]} marks
 * @param {string} colour
 */
function drawMarks(plot, marks, colour) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([3, 3]);
  for (const { at } of marks) {
    const x = plot.valToPos(at / 1000, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** The same numbers, the latest first. @param {{title: string, t: number[], lines: Line[], format: (value: number) => string}} props */
function TimeTable({ title, t, lines, format }) {
  const places = t.map((_, place) => place).toReversed().slice(0, TABLE_ROWS_MAX);
  return h("div", { class: "chart-table", tabIndex: 0, role: "region", "aria-label": title },
    h("table", { class: "plain" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Time"), lines.map(({ label }) => h("th", { key: label, scope: "col", class: "numeric" }, label)))),
      h("tbody", null, places.map((place) => h("tr", { key: t[place] },
        h("th", { scope: "row" }, clockTime(t[place] ?? 0).slice(0, 8)),
        lines.map(({ label, values }) => {
          const value = values[place];
          return h("td", { key: label, class: "numeric" }, value === null || value === undefined ? "–" : format(value));
        }))))));
}
