// The fields of forms: a label with what it labels, and what is wrong about it.
import { h, useId } from "../vendor/vendor.js";

/**
 * @param {{label: string, value: string, onValue: (value: string) => void, hint?: string, kind?: string, placeholder?: string, required?: boolean, autofocus?: boolean}} props
 */
export function TextField({ label, value, onValue, hint, kind = "text", placeholder, required = false, autofocus = false }) {
  const id = useId();
  return h("p", { class: "field" },
    h("label", { for: id }, label),
    h("input", {
      id, type: kind, value, placeholder, required, autofocus, autocomplete: "off", spellcheck: false, "aria-describedby": hint ? `${id}-hint` : undefined,
      onInput: (/** @type {InputEvent} */ event) => onValue(/** @type {HTMLInputElement} */ (event.target).value),
    }),
    hint && h("span", { id: `${id}-hint`, class: "muted" }, hint));
}

/**
 * @param {{label: string, value: string, choices: [string, string][], onValue: (value: string) => void, autofocus?: boolean}} props choices as value and words
 */
export function Choice({ label, value, choices, onValue, autofocus = false }) {
  const id = useId();
  return h("p", { class: "field" },
    h("label", { for: id }, label),
    h("select", { id, value, autofocus, onChange: (/** @type {Event} */ event) => onValue(/** @type {HTMLSelectElement} */ (event.target).value) },
      choices.map(([key, words]) => h("option", { key, value: key, selected: key === value }, words))));
}

/**
 * Several lines of text.
 * @param {{label: string, value: string, onValue: (value: string) => void, hint?: string, rows?: number, placeholder?: string}} props
 */
export function TextArea({ label, value, onValue, hint, rows = 4, placeholder }) {
  const id = useId();
  return h("p", { class: "field" },
    h("label", { for: id }, label),
    h("textarea", {
      id, rows, value, placeholder, spellcheck: false, "aria-describedby": hint ? `${id}-hint` : undefined,
      onInput: (/** @type {InputEvent} */ event) => onValue(/** @type {HTMLTextAreaElement} */ (event.target).value),
    }),
    hint && h("span", { id: `${id}-hint`, class: "muted" }, hint));
}

/** @param {string} text @returns {number | null} a whole number of 1 or more, else null */
export function wholeNumber(text) {
  const number = Number(text);
  return text.trim() && Number.isInteger(number) && number > 0 ? number : null;
}
