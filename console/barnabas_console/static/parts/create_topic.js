// A new topic, planned as a manifest of it would be (CON-120).
import { h, useState } from "../vendor/vendor.js";
import { TextArea, TextField, wholeNumber } from "./fields.js";
import { PlanDialog } from "./plan.js";

/** @param {{onClose: () => void, onDone?: (topic: string) => void}} props */
export function CreateTopic({ onClose, onDone }) {
  const [topic, setTopic] = useState("");
  const [partitions, setPartitions] = useState("");
  const [replicas, setReplicas] = useState("");
  const [settings, setSettings] = useState("");
  const body = topic.trim()
    ? { kind: "create-topic", topic: topic.trim(), partitions: wholeNumber(partitions), replicas: wholeNumber(replicas), config: settingsOf(settings) }
    : null;
  return h(PlanDialog, { title: "Create a topic", action: "Create", body, onClose, onDone: () => onDone?.(topic.trim()) },
    h("div", { class: "fields" },
      h(TextField, { label: "Name", value: topic, onValue: setTopic, autofocus: true }),
      h(TextField, { label: "Partitions", kind: "number", value: partitions, onValue: setPartitions, placeholder: "by default" }),
      h(TextField, { label: "Replicas", kind: "number", value: replicas, onValue: setReplicas, placeholder: "by default" })),
    h(TextArea, { label: "Settings", rows: 3, value: settings, onValue: setSettings, placeholder: "retention.ms=7d\ncleanup.policy=compact", hint: "KEY=VALUE in each line; times and sizes may have units" }));
}

/** @param {string} text KEY=VALUE in each line */
function settingsOf(text) {
  /** @type {Record<string, string>} */
  const settings = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf("=");
    const key = (at < 0 ? line : line.slice(0, at)).trim();
    if (key) settings[key] = at < 0 ? "" : line.slice(at + 1).trim();
  }
  return settings;
}
