// Resetting the offsets of a group: where to, seen at once as a plan (T6, CON-120).
import { h, useState } from "../vendor/vendor.js";
import { Choice, TextArea, TextField } from "./fields.js";
import { PlanDialog } from "./plan.js";

/** @type {[string, string][]} what it means, and the words for it */
const TARGETS = [
  ["to_latest", "the end: skip all records"],
  ["to_earliest", "the first record"],
  ["to_datetime", "a time"],
  ["by_duration", "a while ago"],
  ["shift_by", "so many records on or back"],
  ["to_offset", "an offset"],
  ["from_file", "the offsets of a file"],
];

/** What is typed beside a target. @type {Record<string, {label: string, placeholder: string}>} */
const VALUES = {
  to_datetime: { label: "Time", placeholder: "2026-11-26T10:30 or 1h (ago)" },
  by_duration: { label: "How long ago", placeholder: "90s, 1h30m, 7d" },
  shift_by: { label: "Records, back with a minus", placeholder: "-100" },
  to_offset: { label: "Offset", placeholder: "88213" },
  from_file: { label: "topic,partition,offset in each line", placeholder: "orders,0,88213" },
};

/**
 * @param {{group: string, kind: "consumer" | "share", topics: string[], onClose: () => void, onDone?: () => void}} props topics where the group has offsets
 */
export function ResetOffsets({ group, kind, topics, onClose, onDone }) {
  const [to, setTo] = useState("to_latest");
  const [value, setValue] = useState("");
  const [scope, setScope] = useState("");
  const wanted = VALUES[to];
  const complete = wanted === undefined || value.trim() !== "";
  const body = complete
    ? { kind: "reset-offsets", group, group_kind: kind, to, value: wanted ? value.trim() : "", scopes: scope ? [scope] : [] }
    : null;
  const [first = ""] = topics;
  /** @type {[string, string][]} */
  const scopes = [["", topics.length === 1 ? first : "all its topics"], ...topics.length > 1 ? topics.map((topic) => /** @type {[string, string]} */ ([topic, topic])) : []];
  /** @param {string} next */
  const choose = (next) => {
    setTo(next);
    setValue("");
  };
  return h(PlanDialog, { title: `Reset the offsets of ${group}`, action: "Reset", body, onClose, onDone },
    h("div", { class: "fields" },
      h(Choice, { label: "To", value: to, choices: TARGETS, onValue: choose, autofocus: true }),
      wanted && (to === "from_file"
        ? h(TextArea, { label: wanted.label, value, onValue: setValue, placeholder: wanted.placeholder })
        : h(TextField, { label: wanted.label, value, onValue: setValue, placeholder: wanted.placeholder })),
      topics.length > 1 && h(Choice, { label: "Of", value: scope, choices: scopes, onValue: setScope })));
}
