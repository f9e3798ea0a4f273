// A button for a change: locked where the viewer has no right to it (CON-141), a command where the console is
// read-only (CON-143).
import { Fragment, h, useState } from "../vendor/vendor.js";
import { Copy } from "./copy.js";
import { Dialog } from "./dialog.js";
import { LockShape } from "./icons.js";
import { readOnly, session } from "../session.js";

/** @typedef {import("../rights.js").Lock} Lock */

/**
 * A locked one is found by the keyboard as the others are, and says why when it is pressed. In a read-only
 * console it gives the command; where there is none, it is not there (CON-143).
 * @param {{lock: Lock | undefined, command?: string, onClick: (event: MouseEvent) => void, class?: string, children?: any}} props
 */
export function ChangeButton({ lock, command, onClick, class: kind, children }) {
  const [open, setOpen] = useState(false);
  if (readOnly.value && (!command || !session.value)) return null;
  if (!readOnly.value && !lock) return h("button", { type: "button", class: kind, onClick }, children);
  const close = () => setOpen(false);
  /** @param {any} contents @param {string} look @param {string | undefined} title */
  const opening = (contents, look, title) => h("button", { type: "button", class: `${kind ?? ""} ${look}`.trim(), title, "aria-haspopup": "dialog", onClick: () => setOpen(true) }, contents);
  if (readOnly.value) {
    return h(Fragment, null, opening(children, "", undefined),
      open && h(Dialog, { title: "This console is read-only", onClose: close }, h("p", { class: "muted" }, "It changes nothing. The command that does it:"), h("p", null, h(Copy, { text: command ?? "" }))));
  }
  return h(Fragment, null,
    opening([h(LockShape, { key: "lock" }), h("span", { key: "words" }, children), h("span", { key: "locked", class: "unseen" }, "(locked)")], "locked", lock?.words),
    open && lock && h(Dialog, { title: "Locked", onClose: close }, h(LockWords, { lock })));
}

/** What is missing, and who can change it, how. @param {{lock: Lock}} props */
export function LockWords({ lock }) {
  return h("div", { class: "lock-words" },
    h("p", { class: "lock-sentence" }, h(LockShape, {}), h("span", null, lock.words)),
    h("p", { class: "muted" }, "Who may alter the cluster gives the right:"),
    h("p", null, h(Copy, { text: lock.command })),
    h("p", { class: "muted" }, "Which rule decides:"),
    h("p", null, h(Copy, { text: lock.explain_command })));
}

/** Above a list whose rows would be changed by opening them. @param {{lock: Lock | undefined, children?: any}} props */
export function LockNote({ lock, children }) {
  if (!lock) return null;
  return h("p", { class: "lock-note muted" }, h(LockShape, {}), h("span", null, children, " ", lock.words, "."));
}
