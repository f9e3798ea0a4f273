// What the keys do, and the switch that turns them off.
import { h } from "./vendor/vendor.js";
import { GO_TO, LISTED } from "./keyboard.js";
import { Dialog } from "./parts/dialog.js";
import { pages } from "./pages/index.js";
import { keys } from "./preferences.js";
import { session } from "./session.js";

/** @param {{onClose: () => void}} props */
export function Help({ onClose }) {
  const goTo = Object.entries(GO_TO).filter(([, page]) => pages[page]).map(([letter, page]) => [`g  ${letter}`, pages[page]?.title ?? page]);
  return h(Dialog, { title: "Keys", onClose },
    h("dl", { class: "keys" }, [...LISTED, ...goTo].map(([key, meaning]) =>
      h("div", { key }, h("dt", null, (key ?? "").split("  ").map((part) => h("kbd", { key: part }, part))), h("dd", null, meaning)))),
    h("label", { class: "check" },
      h("input", { type: "checkbox", checked: keys.value, onChange: (/** @type {Event} */ event) => { keys.value = /** @type {HTMLInputElement} */ (event.target).checked; } }),
      " Single keys do this"),
    session.value && h("p", { class: "muted" }, `Barnabas ${session.value.version}`));
}
