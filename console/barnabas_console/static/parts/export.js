// A choice of what a list or a topic's records are exported as (CON-124).
import { h } from "../vendor/vendor.js";
import { download } from "./download.js";

/**
 * @param {{path: string, query: Record<string, string>}} props a path of the API, without `/api/v1/`, that takes a `format`
 */
export function Export({ path, query }) {
  /** @param {Event} event */
  const act = (event) => {
    const choice = /** @type {HTMLSelectElement} */ (event.target);
    const format = choice.value;
    choice.value = "";
    if (format) void download(`${path}?${new URLSearchParams({ format, ...query })}`);
  };
  return h("select", { class: "export", "aria-label": "Export", value: "", onChange: act },
    h("option", { value: "" }, "Export"), h("option", { value: "jsonl" }, "as JSON lines"), h("option", { value: "csv" }, "as CSV"));
}
