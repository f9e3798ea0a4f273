// A file of the API, by a link that holds once: a download cannot carry the page's own header (CON-142).
import { h } from "../vendor/vendor.js";
import { post } from "../api.js";

/**
 * Begin a download of a path of the API, without `/api/v1/`.
 * @param {string} path
 */
export async function download(path) {
  const { url } = await post("tickets", { path: `/api/v1/${path}` });
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = "";
  anchor.click();
}

/** @param {{path: string, children?: any}} props */
export function Download({ path, children }) {
  return h("button", { type: "button", class: "quiet", onClick: () => void download(path) }, children);
}
