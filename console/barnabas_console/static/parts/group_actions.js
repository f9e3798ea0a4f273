// What can be done to a group: its offsets reset, the group deleted (CON-120).
import { h, useState } from "../vendor/vendor.js";
import { useLocks } from "../rights.js";
import { href, navigate } from "../router.js";
import { commandLine } from "./command.js";
import { ChangeButton } from "./lock.js";
import { Menu } from "./menu.js";
import { PlanDialog } from "./plan.js";
import { ResetOffsets } from "./reset_offsets.js";

/**
 * @param {{group: string, kind: "consumer" | "share", topics: string[]}} props topics where the group has offsets
 */
export function GroupActions({ group, kind, topics }) {
  const [open, setOpen] = useState("");
  const [gone, setGone] = useState(false);
  const locks = useLocks({ group });
  const noun = kind === "share" ? "share" : "group";
  const items = [{ act: "delete-group", title: "Delete…", danger: true, command: commandLine(`${noun} delete`, group) }];
  const close = () => setOpen("");
  // Its undo is offered in the dialog: the page goes when that is closed.
  const closeDeletion = () => (gone ? navigate(href(["groups"])) : close());
  return h("span", { class: "push acts" },
    topics.length > 0 && h(ChangeButton, { lock: locks("reset-offsets"), command: commandLine(`${noun} reset`, group, ["--to-latest"]), onClick: () => setOpen("reset-offsets") }, "Reset offsets…"),
    h(Menu, { label: "What can be done to this group", items, lockOf: locks, onOpen: setOpen }),
    open === "reset-offsets" && h(ResetOffsets, { group, kind, topics, onClose: close }),
    open === "delete-group" && h(PlanDialog, {
      title: `Delete the group ${group}`, action: "Delete", danger: true, body: { kind: "delete-group", group, group_kind: kind }, onClose: closeDeletion,
      onDone: (undone) => setGone(!undone),
    }));
}
