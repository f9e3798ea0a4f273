// What can be done to a topic: more partitions, records removed, the topic deleted (CON-120).
import { h, useState } from "../vendor/vendor.js";
import { href, navigate } from "../router.js";
import { useLocks } from "../rights.js";
import { commandLine } from "./command.js";
import { TextField, wholeNumber } from "./fields.js";
import { Menu } from "./menu.js";
import { PlanDialog } from "./plan.js";

/** @param {string} topic */
function itemsOf(topic) {
  return [
    { act: "alter-partitions", title: "Partitions and replicas…", command: commandLine("topic alter", topic, ["--partitions", "12"]) },
    { act: "delete-records", title: "Remove records…" },
    { act: "delete-topic", title: "Delete…", danger: true, command: commandLine("topic delete", topic) },
  ];
}

/** @param {{topic: string}} props */
export function TopicActions({ topic }) {
  const [open, setOpen] = useState("");
  const locks = useLocks({ topic });
  const close = () => setOpen("");
  return h("span", { class: "push" },
    h(Menu, { label: "What can be done to this topic", items: itemsOf(topic), lockOf: locks, onOpen: setOpen }),
    open === "alter-partitions" && h(MorePartitions, { topic, onClose: close }),
    open === "delete-records" && h(PlanDialog, { title: `Remove all records of ${topic}`, action: "Remove", danger: true, body: { kind: "delete-records", topic }, onClose: close }),
    open === "delete-topic" && h(PlanDialog, {
      title: `Delete topic ${topic}`, action: "Delete", danger: true, body: { kind: "delete-topic", topic }, onClose: close,
      onDone: () => navigate(href(["topics"])),
    }));
}

/** @param {{topic: string, onClose: () => void}} props */
function MorePartitions({ topic, onClose }) {
  const [partitions, setPartitions] = useState("");
  const [replicas, setReplicas] = useState("");
  const [accepted, setAccepted] = useState(false);
  const numbers = { partitions: wholeNumber(partitions), replicas: wholeNumber(replicas) };
  const body = numbers.partitions === null && numbers.replicas === null ? null : { kind: "alter-topic", topic, ...numbers, accepts_key_movement: accepted };
  return h(PlanDialog, { title: `Partitions and replicas of ${topic}`, action: "Change", body, onClose },
    h("div", { class: "fields" },
      h(TextField, { label: "Partitions", kind: "number", value: partitions, onValue: setPartitions, placeholder: "as they are", autofocus: true }),
      h(TextField, { label: "Replicas", kind: "number", value: replicas, onValue: setReplicas, placeholder: "as they are" })),
    h("label", { class: "check" },
      h("input", { type: "checkbox", checked: accepted, onChange: () => setAccepted(!accepted) }),
      "Keys of a compacted topic may go to other partitions"));
}
