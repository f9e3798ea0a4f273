// The settings of a topic, and their change: old and new before it is saved (CON-117).
import { h, useState } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { commandLine } from "../parts/command.js";
import { TextField } from "../parts/fields.js";
import { ChangeButton, LockNote } from "../parts/lock.js";
import { Loaded } from "../parts/notices.js";
import { PlanDialog } from "../parts/plan.js";
import { SettingsTable, isDefault } from "../parts/settings_table.js";
import { useLocks } from "../rights.js";
import { readOnly } from "../session.js";

/** @typedef {import("../parts/settings_table.js").Setting} Setting */

/** @param {{params: {topic: string}, query: Record<string, string>}} props */
export default function Settings({ params, query }) {
  const { topic } = params;
  const [open, setOpen] = useState(/** @type {Setting | null} */ (null));
  const polled = usePolled(`topics/${encodeURIComponent(topic)}/settings`, { intervalMs: 5_000 });
  const lock = useLocks({ topic })("alter-settings");
  return h("div", null,
    readOnly.value && h(ChangeButton, { lock, command: commandLine("topic alter", topic, ["--config", "retention.ms=7d"]), onClick: () => {} }, "Change a setting…"),
    h(LockNote, { lock }, "Settings are locked:"),
    h(Loaded, { polled, children: (/** @type {any} */ facts) => h(SettingsTable, { facts, query, ...(readOnly.value || lock ? {} : { onOpen: setOpen }) }) }),
    open && h(SettingDialog, { topic, setting: open, onClose: () => setOpen(null) }));
}

/** @param {{topic: string, setting: Setting, onClose: () => void}} props */
function SettingDialog({ topic, setting, onClose }) {
  const { name, value, unit, why } = setting;
  const [wanted, setWanted] = useState(value ?? "");
  const [byDefault, setByDefault] = useState(false);
  const changed = byDefault || wanted !== (value ?? "");
  const body = changed ? { kind: "alter-topic", topic, config: { [name]: byDefault ? null : wanted } } : null;
  return h(PlanDialog, { title: name, action: "Save", body, onClose },
    why && h("p", { class: "muted" }, why),
    !byDefault && h(TextField, { label: "Value", value: wanted, onValue: setWanted, autofocus: true, ...(unit ? { hint: unit } : {}) }),
    !isDefault(setting) && h("label", { class: "check" },
      h("input", { type: "checkbox", checked: byDefault, onChange: () => setByDefault(!byDefault) }), "The broker's default"));
}
