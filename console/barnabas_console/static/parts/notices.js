// What stands where rows would: nothing yet, nothing at all, or an error with what to do (CON-153).
import { h, useEffect, useState } from "../vendor/vendor.js";
import { Copy } from "./copy.js";
import { LockWords } from "./lock.js";
import { StateBadge } from "./state.js";
import { duration } from "../words.js";

/**
 * What would fill an empty list, and by which command.
 * @param {{title: string, children?: any, command?: string}} props
 */
export function Empty({ title, children, command }) {
  return h("div", { class: "notice empty" },
    h("p", { class: "notice-title" }, title),
    children && h("p", null, children),
    command && h(Copy, { text: command }));
}

/**
 * What went wrong, at which broker, and what to do.
 * @param {{failure: import("../api.js").Failure, onRetry?: () => void}} props
 */
export function ErrorBox({ failure, onRetry }) {
  const { message, hint, broker, lock } = failure;
  if (lock) return h("div", { class: "notice denied", role: "alert" }, h(LockWords, { lock }), onRetry && h("button", { type: "button", onClick: onRetry }, "Try again"));
  return h("div", { class: "notice error", role: "alert" },
    h("p", { class: "notice-title" }, h(StateBadge, { state: "critical" }, message)),
    broker !== undefined && broker !== null && h("p", null, `Broker ${broker}`),
    hint && h("p", null, hint),
    // What makes no sense makes none a second time.
    onRetry && failure.status !== 400 && h("button", { type: "button", onClick: onRetry }, "Try again"));
}

/** Grey bars, but only where it takes longer than 150 ms. @param {{rows?: number}} props */
export function Skeleton({ rows = 6 }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return h("div", { class: `skeleton${late ? " late" : ""}`, "aria-busy": "true", "aria-label": "Loading" },
    Array.from({ length: rows }, (_, row) => h("span", { key: row, class: "bar" })));
}

/**
 * What a polled path gave: its data, greyed and dated where it could not be read anew.
 * @param {{polled: import("../api.js").Polled<any> & {refresh: () => void}, rows?: number, children: (data: any) => any}} props
 */
export function Loaded({ polled, rows, children }) {
  const { data, failure, readAtMs, waiting, refresh } = polled;
  if (data === null) {
    if (failure) return h(ErrorBox, { failure, onRetry: refresh });
    return waiting ? h(Skeleton, { rows: rows ?? 6 }) : null;
  }
  return h("div", { class: failure ? "loaded old" : "loaded" },
    failure && h(OldNote, { failure, readAtMs }),
    h("div", { class: "loaded-body" }, children(data)));
}

/** "as of 12 s ago", counting. @param {{failure: import("../api.js").Failure, readAtMs: number}} props */
export function OldNote({ failure, readAtMs }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return h("p", { class: "old-note", role: "status" },
    h(StateBadge, { state: "warning" }, `as of ${duration(now - readAtMs)} ago`),
    " ", failure.message, failure.hint && ` ${failure.hint}`);
}
