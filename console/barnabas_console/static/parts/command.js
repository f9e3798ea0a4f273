// The command that says the same as the page; the key `c` copies it (CON-102, CON-124).
import { h } from "../vendor/vendor.js";
import { Copy } from "./copy.js";

/** @param {{text: string}} props */
export function PageCommand({ text }) {
  return h("p", { class: "page-command" }, h(Copy, { text, primary: true }));
}

/**
 * `barnabas VERB NAME OPTIONS` as a shell takes it. A name that begins with a dash would be taken for an option:
 * it comes last, after two dashes.
 * @param {string} verb the command's own words
 * @param {string} name of a topic or a group
 * @param {(string | false | null | undefined)[]} [options] those that do not hold are left out
 */
export function commandLine(verb, name, options = []) {
  const words = /** @type {string[]} */ (options.filter((word) => word !== false && word !== null && word !== undefined && word !== "")).map(quoted);
  return ["barnabas", verb, ...(name.startsWith("-") ? [...words, "--", quoted(name)] : [quoted(name), ...words])].join(" ");
}

/** As a shell takes it. @param {string} text */
function quoted(text) {
  return /^[\w.@%+=:,/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`;
}
