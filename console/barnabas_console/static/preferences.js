// What a person chose for this browser: theme, time zone, keys. Kept in its local storage.
import { effect, signal } from "./vendor/vendor.js";

/** Drawn by lot once; tells the server which streams are of one browser (CON-160). */
const DRAWN = crypto.getRandomValues(new Uint32Array(2)).join("-");

/**
 * A signal that outlives the tab.
 * @template T
 * @param {string} name
 * @param {T} initial
 * @param {{always?: boolean}} [options] `always`: what nobody chose is kept, too
 */
export function kept(name, initial, { always = false } = {}) {
  const key = `barnabas.${name}`;
  /** @type {T} */
  let start = initial;
  try {
    const text = localStorage.getItem(key);
    if (text !== null) start = JSON.parse(text);
  } catch {
    // Storage may be forbidden or hold what another version wrote.
  }
  const value = signal(start);
  let first = !always;
  effect(() => {
    const text = JSON.stringify(value.value);
    if (first) {
      first = false;
      return;
    }
    try {
      localStorage.setItem(key, text);
    } catch {
      // The choice then holds for this tab only.
    }
  });
  return value;
}

export const browserId = kept("browser", DRAWN, { always: true });
/** Times in UTC instead of the browser's own zone. */
export const utc = kept("utc", false);
/** Single keys as commands (WCAG 2.1.4: they can be switched off). */
export const keys = kept("keys", true);
/** @type {import("./vendor/vendor.js").Signal<"light" | "dark" | "system">} */
export const theme = kept("theme", /** @type {"light" | "dark" | "system"} */ ("system"));

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
