// The search field of a page: what is typed is in the address, and `/` puts the cursor there.
import { h, useCallback, useRef } from "../vendor/vendor.js";
import { useKey } from "../keyboard.js";
import { setQuery } from "../router.js";

/** @param {{value: string, label: string, name?: string}} props */
export function Filter({ value, label, name = "q" }) {
  /** @type {import("../vendor/vendor.js").RefObject<HTMLInputElement | null>} */
  const field = useRef(null);
  useKey("/", useCallback(() => field.current?.select(), []));
  return h("input", {
    ref: field, type: "search", class: "filter", value, placeholder: label, "aria-label": label, spellcheck: false, autocomplete: "off",
    onInput: (/** @type {InputEvent} */ event) => setQuery({ [name]: /** @type {HTMLInputElement} */ (event.target).value }),
    onKeyDown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape" && !value) field.current?.blur();
    },
  });
}
