// The menu "⋯" of a thing: what can be done to it.
import { h } from "../vendor/vendor.js";
import { readOnly } from "../session.js";
import { ChangeButton } from "./lock.js";

/**
 * What is opened gives the focus back to the menu.
 * @param {{label: string, items: {act: string, title: string, danger?: boolean, command?: string}[], lockOf: (act: string) => import("./lock.js").Lock | undefined, onOpen: (act: string) => void}} props
 */
export function Menu({ label, items, lockOf, onOpen }) {
  /** @param {string} act */
  const opens = (act) => (/** @type {MouseEvent} */ event) => {
    const menu = /** @type {HTMLElement} */ (event.currentTarget).closest("details");
    menu?.removeAttribute("open");
    menu?.querySelector("summary")?.focus(); // where the dialog gives the focus back to
    onOpen(act);
  };
  if (readOnly.value && !items.some(({ command }) => command)) return null;
  return h("details", { class: "menu" },
    h("summary", { "aria-label": label, title: "What can be done" }, "⋯"),
    h("div", { class: "menu-items" }, items.map(({ act, title, danger, command }) =>
      h(ChangeButton, { key: act, class: danger ? "danger" : "quiet", lock: lockOf(act), command, onClick: opens(act) }, title))));
}
