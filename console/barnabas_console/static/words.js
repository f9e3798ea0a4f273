// Numbers, sizes and times as people read them. Pure.
import { utc } from "./preferences.js";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SIZE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/**
 * "2 partitions", "1 partition".
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export function counted(value, one, many = `${one}s`) {
  return `${whole.format(value)} ${value === 1 ? one : many}`;
}

/**
 * How many records there are between two offsets: "≤ 1,204", for markers of transactions, aborted records
 * and those that compaction took have offsets, too (CON-112).
 * @param {number | null | undefined} value
 * @param {boolean} exact
 */
export function recordCount(value, exact) {
  return exact || value === null || value === undefined ? count(value) : `≤ ${whole.format(value)}`;
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < SIZE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 100 || unit === 0 ? whole.format(size) : size.toPrecision(size >= 10 ? 3 : 2)} ${SIZE_UNITS[unit]}`;
}

/**
 * "12,430/s".
 * @param {number | null | undefined} value
 */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  return `${value > 0 && value < 10 ? value.toFixed(1) : whole.format(value)}/s`;
}

/** @param {number} share of 1 */
export function percent(share) {
  return `${whole.format(share * 100)} %`;
}

/**
 * A span in its largest unit and the next: "6 min", "1 h 5 min".
 * @param {number | null | undefined} ms
 */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 1) return ms < 1 ? "0 s" : `${whole.format(ms)} ms`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 7 ? `${days} d ${hours % 24} h` : `${whole.format(days)} d`;
}

/**
 * How late something short runs: "0.4 ms", "12 ms", "1.7 s".
 * @param {number | null | undefined} ms
 */
export function lateness(ms) {
  if (ms === null || ms === undefined) return "–";
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1_000 ? `${whole.format(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/**
 * "14:05:07.113", in the zone that was chosen.
 * @param {number} ms since the epoch
 */
export function clockTime(ms) {
  return moment(ms).slice(11, 23);
}

/**
 * "2026-11-26 14:05:07.113", in the zone that was chosen.
 * @param {number} ms since the epoch
 */
export function moment(ms) {
  const shift = utc.value ? 0 : -new Date(ms).getTimezoneOffset() * 60_000;
  const date = new Date(ms + shift);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().slice(0, 23).replace("T", " ");
}
