// Why a group does not get on: what is so, what to do, and the command or the record for that (CON-119).
import { h } from "../vendor/vendor.js";
import { Copy } from "./copy.js";
import { StateBadge } from "./state.js";
import { href } from "../router.js";

/**
 * @typedef {{rule: string, state: import("./state.js").State, evidence: string, next: string, command: string,
 *   topic: string | null, partition: number | null, offset: number | null}} Finding
 */

/** @param {{findings: Finding[], shown: string}} props `shown` is the command that the page has anyway */
export function Diagnosis({ findings, shown }) {
  return h("ul", { class: "findings" }, findings.map((finding) => h("li", { key: finding.rule, class: finding.state },
    h("p", { class: "evidence" }, h(StateBadge, { state: finding.state }, finding.evidence)),
    finding.next && h("p", { class: "next muted" }, finding.next),
    ((finding.command && finding.command !== shown) || finding.topic !== null) && h("p", { class: "next" },
      finding.topic !== null && finding.offset !== null && h("a", { href: recordOf(finding) }, "Look at the record"),
      finding.command && finding.command !== shown && h(Copy, { text: finding.command })))));
}

/** @param {Finding} finding */
function recordOf({ topic, partition, offset }) {
  return href(["topics", topic ?? "", "records"], { at: `offset:${offset}`, partition: partition ?? 0 });
}
