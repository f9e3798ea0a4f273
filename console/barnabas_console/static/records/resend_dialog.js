// Dead letters back to where they came from: what would be sent, then what became of each.
import { h, useEffect, useState } from "../vendor/vendor.js";
import { ApiError, inDoubt, post } from "../api.js";
import { Dialog, useFocus } from "../parts/dialog.js";
import { ErrorBox, Skeleton } from "../parts/notices.js";
import { StateBadge } from "../parts/state.js";
import { counted } from "../words.js";

/** @typedef {{partition: number, offset: number, to_topic: string | null, key: string | null, value: string | null, is_from_origin: boolean, problem: string | null, written?: {partition: number, offset: number} | null}} Letter */

/** @param {{topic: string, places: [number, number][], onClose: () => void, onSent: () => void}} props */
export function ResendDialog({ topic, places, onClose, onSent }) {
  const [letters, setLetters] = useState(/** @type {Letter[] | null} */ (null));
  const [failure, setFailure] = useState(/** @type {import("../api.js").Failure | null} */ (null));
  const [step, setStep] = useState(/** @type {"preview" | "sending" | "sent"} */ ("preview"));
  /** @param {boolean} preview */
  const ask = async (preview) => {
    try {
      const { rows } = await post(`topics/${encodeURIComponent(topic)}/resend`, { records: places, preview });
      setLetters(rows);
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFailure(preview ? error.failure : inDoubt(error.failure, "Some may be sent: look at their topics before you send them again."));
      return false;
    }
  };
  useEffect(() => void ask(true), []);
  // The button that was pressed goes when all is sent: the one that stays has the focus then.
  const close = useFocus(step === "sent");
  const send = async () => {
    if (step === "sending") return;
    setStep("sending");
    if (await ask(false)) {
      setStep("sent");
      onSent();
    } else setStep("preview");
  };
  const ready = (letters ?? []).filter((letter) => !letter.problem).length;
  // As long as there is nothing to say of any of them, the other columns have the room.
  const told = (letters ?? []).some((letter) => resultOf(letter, step) !== "");
  return h(Dialog, { title: "Send dead letters back", onClose, wide: true, actions: [
    h("button", { ref: close, key: "close", type: "button", onClick: onClose }, step === "sent" ? "Close" : "Cancel"),
    step !== "sent" && h("button", { key: "send", type: "button", class: "primary", disabled: ready === 0, "aria-disabled": step === "sending", onClick: () => void send() }, `Send ${counted(ready, "record")}`),
  ] },
    failure && h(ErrorBox, { failure }),
    h("p", { class: "muted" }, "Key, value and own headers go to the topic that the headers name; headers about the failure are left out. The letters stay."),
    letters === null && !failure ? h(Skeleton, { rows: 4 }) : h("div", { class: "letters", tabIndex: 0, role: "region", "aria-label": "Letters" },
      h("table", { class: "plain" },
        h("thead", null, h("tr", null, ["Letter", "To", "Key", "Value", ...(told ? ["Result"] : [])].map((title) => h("th", { key: title, scope: "col" }, title)))),
        h("tbody", null, (letters ?? []).map((letter) => h("tr", { key: `${letter.partition}:${letter.offset}` },
          h("td", null, `${letter.partition}:${letter.offset}`),
          h("td", null, letter.to_topic ?? "–"),
          h("td", { class: "mono" }, letter.key ?? "∅"),
          h("td", { class: "mono letter-value" }, letter.value ?? "∅"),
          told && h("td", null, resultOf(letter, step))))))));
}

/**
 * @param {Letter} letter
 * @param {string} step
 */
function resultOf(letter, step) {
  if (letter.written) return h(StateBadge, { state: "fine" }, `written at ${letter.written.partition}:${letter.written.offset}`);
  if (letter.problem) return h(StateBadge, { state: step === "sent" ? "critical" : "warning" }, letter.problem);
  return letter.is_from_origin ? "as the topic still has it" : "";
}
