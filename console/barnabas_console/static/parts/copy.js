// A command or value with a button that copies it.
import { h, useState } from "../vendor/vendor.js";

/** @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Plain HTTP on another address than loopback has no clipboard; the text can be selected.
    return false;
  }
}

/**
 * @param {{text: string, label?: string, primary?: boolean}} props `label` where the text is not to be shown; `primary` is what the key `c` copies
 */
export function Copy({ text, label, primary = false }) {
  const [said, setSaid] = useState("");
  const act = async () => {
    setSaid((await copyText(text)) ? "copied" : "select it and copy");
    setTimeout(() => setSaid(""), 1_500);
  };
  return h("span", { class: "copy" },
    label === undefined && h("code", { class: "command" }, text),
    h("button", { type: "button", class: "quiet", onClick: act, title: text, "aria-label": `Copy ${label ?? text}`, "data-copy": primary ? "primary" : undefined },
      label ?? h(CopyIcon, {}), said && h("span", { class: "said" }, said)),
    h("span", { class: "unseen", role: "status" }, said));
}

function CopyIcon() {
  return h("svg", { viewBox: "0 0 16 16", width: 14, height: 14, fill: "none", stroke: "currentColor", "stroke-width": 1.4, "aria-hidden": "true" },
    h("rect", { x: 5.5, y: 5.5, width: 8, height: 8, rx: 1.5 }),
    h("path", { d: "M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2" }));
}
