// Single keys as commands (CON-124). They are off while somebody types, and can be switched off.
import { useEffect } from "./vendor/vendor.js";
import { href, navigate } from "./router.js";
import { keys } from "./preferences.js";

/** What `g` and a letter open. */
export const GO_TO = /** @type {const} */ ({
  o: "overview", b: "brokers", t: "topics", g: "groups", c: "cluster", k: "kubernetes",
});

/** What `?` lists beside the pages. */
export const LISTED = [
  ["/", "search topics and groups"],
  ["j  k", "next and previous row"],
  ["Enter", "open the row"],
  ["Space", "pause a live tail"],
  ["c", "copy the command of this page"],
  ["Esc", "close, or leave the search"],
  ["?", "this list"],
];

/** @typedef {(event: KeyboardEvent) => void} Handler */
/** @type {Map<string, Handler[]>} the handler that came last is asked */
const handlers = new Map();
const NEVER = -Infinity;
let goTo = NEVER;

/**
 * Handle a key while the caller is shown.
 * @param {string} key as `KeyboardEvent.key` names it
 * @param {Handler} handler
 */
export function useKey(key, handler) {
  useEffect(() => {
    const list = handlers.get(key) ?? [];
    handlers.set(key, [...list, handler]);
    return () => void handlers.set(key, (handlers.get(key) ?? []).filter((other) => other !== handler));
  }, [key, handler]);
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

addEventListener("keydown", (event) => {
  if (!keys.value || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]:modal")) return;
  const second = event.timeStamp - goTo < 1_500;
  goTo = NEVER;
  const page = second ? GO_TO[/** @type {keyof typeof GO_TO} */ (event.key)] : undefined;
  if (page) {
    event.preventDefault();
    navigate(href([page]));
    return;
  }
  if (event.key === "g") {
    goTo = event.timeStamp;
    return;
  }
  // A button that has the focus is pressed by Space.
  if (event.key === " " && event.target instanceof HTMLElement && event.target.closest("button, a, summary")) return;
  const handler = handlers.get(event.key)?.at(-1);
  if (handler) {
    event.preventDefault();
    handler(event);
  }
});
