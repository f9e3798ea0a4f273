// Dialogs and drawers: the browser's own `<dialog>`, which keeps the focus inside and gives it back.
import { h, useEffect, useId, useLayoutEffect, useRef } from "../vendor/vendor.js";

/**
 * A dialog over the page, closed by Escape.
 * @param {{title: any, onClose: () => void, children?: any, actions?: any, wide?: boolean}} props
 */
export function Dialog({ title, onClose, children, actions, wide = false }) {
  return h(Modal, { title, onClose, kind: wide ? "dialog wide" : "dialog" }, children,
    actions && h("footer", { class: "actions" }, actions));
}

/**
 * One thing beside its list, which stays: below 900 px it covers the page.
 * @param {{title: any, onClose: () => void, children?: any}} props
 */
export function Drawer({ title, onClose, children }) {
  return h(Modal, { title, onClose, kind: "drawer" }, children);
}

/** @param {{title: any, onClose: () => void, kind: string, children?: any}} props */
function Modal({ title, onClose, kind, children }) {
  const id = useId();
  /** @type {import("../vendor/vendor.js").RefObject<HTMLDialogElement | null>} */
  const box = useRef(null);
  useEffect(() => {
    const dialog = box.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  /** @param {MouseEvent} event */
  const outside = (event) => {
    if (event.target === box.current) onClose();
  };
  /** @param {Event} event */
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return h("dialog", { ref: box, class: kind, "aria-labelledby": id, onCancel: cancel, onMouseDown: outside },
    h("div", { class: "dialog-body" },
      h("header", null,
        h("h2", { id }, title),
        h("button", { type: "button", class: "quiet close", onClick: onClose, "aria-label": "Close" }, "✕")),
      children));
}

/**
 * A button that takes the focus once `when` holds: before that is painted, so that the one that went
 * for it never leaves a page on which nothing has the focus.
 * @param {boolean} when
 */
export function useFocus(when) {
  /** @type {import("../vendor/vendor.js").RefObject<HTMLButtonElement | null>} */
  const button = useRef(null);
  useLayoutEffect(() => {
    if (when) button.current?.focus();
  }, [when]);
  return button;
}
