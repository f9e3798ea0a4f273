// A change as a plan: old and new before anything is done, a yes, then what became of each item (CON-120).
import { h, useEffect, useId, useRef, useState } from "../vendor/vendor.js";
import { ApiError, post, refreshAll, stream } from "../api.js";
import { counted } from "../words.js";
import { Copy } from "./copy.js";
import { Dialog, useFocus } from "./dialog.js";
import { Download } from "./download.js";
import { LockWords } from "./lock.js";
import { ErrorBox, Skeleton } from "./notices.js";
import { StateBadge } from "./state.js";

/** @typedef {{item: string, old: unknown, new: unknown, note: string}} PlanRow */
/**
 * @typedef {{id: string, hash: string, title: string, rows: PlanRow[], change_count: number, warnings: string[],
 *   commands: string[], typed: string | null, refusal: string | null, lock?: import("../rights.js").Lock | null, has_undo: boolean}} PlanFacts
 */
/** @typedef {{item: string, error: string}} ItemResult */
/** @typedef {{done: number, failed: number, undo: {id: string, file_name: string} | null, undo_command: string | null}} Outcome */

const SHOWN_ROWS = 200;
/** Typing redraws the plan when it rests for so long. */
const REST_MS = 250;

/**
 * The plan of `body`, drawn up again whenever that changes. `children` is the form that makes it; null: it
 * makes no sense yet. `onDone` gets whether it was an undo; where an item has failed it is not called.
 * @param {{title: string, action: string, body: Record<string, unknown> | null, danger?: boolean, onClose: () => void, onDone?: ((undone: boolean) => void) | undefined, children?: any}} props
 */
export function PlanDialog({ title, action, body, danger = false, onClose, onDone, children }) {
  const [carried, setCarried] = useState(/** @type {PlanFacts | null} */ (null));
  const [undo, setUndo] = useState(/** @type {string | null} */ (null));
  const { plan, failure, again } = usePlan(carried ? null : undo === null ? body : { kind: "undo", id: undo });
  const [typed, setTyped] = useState("");
  const [refused, setRefused] = useState(/** @type {import("../api.js").Failure | null} */ (null));
  // Why it was not carried out is told beside the plan as it is now, until something else is wanted.
  const asked = JSON.stringify([body, undo]);
  useEffect(() => setRefused(null), [asked]);
  const named = !plan?.typed || typed === plan.typed;
  const ready = plan !== null && plan.refusal === null && plan.change_count > 0 && named;
  // What had the focus before is gone with what was shown: the plan that is drawn up takes it.
  const cancel = useFocus(carried === null && (undo !== null || refused !== null));
  const yes = useFocus(undo !== null && ready && carried === null);
  if (carried) {
    /** @param {import("../api.js").Failure} why */
    const onRefused = (why) => {
      setCarried(null);
      setRefused(why);
      again();
    };
    /** @param {string} id */
    const onUndo = (id) => {
      setCarried(null);
      setUndo(id);
    };
    return h(Dialog, { title, onClose, wide: true },
      h(Carried, { plan: carried, typed, onRefused, onDone: () => onDone?.(undo !== null), onUndo, onClose }));
  }
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (!ready) return;
    setRefused(null);
    setCarried(plan);
  };
  return h(Dialog, { title: undo === null ? title : (plan?.title ?? title), onClose, wide: true },
    h("form", { class: "plan", onSubmit: submit },
      undo === null && children,
      refused && h(ErrorBox, { failure: refused }),
      failure ? h(ErrorBox, { failure, onRetry: again }) : body === null && undo === null ? null : plan === null ? h(Skeleton, { rows: 3 }) : h(Preview, { plan }),
      plan?.typed && plan.refusal === null && h(TypedName, { name: plan.typed, typed, onTyped: setTyped }),
      h("footer", { class: "actions" },
        h("button", { ref: cancel, type: "button", onClick: onClose }, "Cancel"),
        h("button", { ref: yes, type: "submit", class: danger ? "danger" : "primary", disabled: !ready }, undo === null ? action : "Undo"))));
}

/**
 * @param {Record<string, unknown> | null} body
 * @returns {{plan: PlanFacts | null, failure: import("../api.js").Failure | null, again: () => void}}
 */
function usePlan(body) {
  const [drawn, setDrawn] = useState(NOT_DRAWN);
  const [round, setRound] = useState(0);
  const first = useRef(true);
  const text = body && JSON.stringify(body);
  useEffect(() => {
    setDrawn(NOT_DRAWN);
    if (text === null) return undefined;
    const aborted = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setDrawn({ text, plan: await post("plans", JSON.parse(text), { signal: aborted.signal }), failure: null });
      } catch (error) {
        if (aborted.signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        setDrawn({ text, plan: null, failure: error.failure });
      }
    }, first.current ? 0 : REST_MS);
    first.current = false;
    return () => {
      clearTimeout(timer);
      aborted.abort();
    };
  }, [text, round]);
  // An effect comes after the page was painted: until then a plan may be of what was typed before.
  const { plan, failure } = drawn.text === text ? drawn : NOT_DRAWN;
  return { plan, failure, again: () => setRound((old) => old + 1) };
}

/** @type {{text: string | null, plan: PlanFacts | null, failure: import("../api.js").Failure | null}} `text` is the body that it is of */
const NOT_DRAWN = { text: null, plan: null, failure: null };

/** @param {{plan: PlanFacts}} props */
function Preview({ plan }) {
  const { rows, warnings, commands, refusal, lock, change_count: changes } = plan;
  return h("div", { class: "preview" },
    lock ? h("div", { role: "alert" }, h(LockWords, { lock })) : refusal !== null && h("p", { role: "alert" }, h(StateBadge, { state: "critical" }, refusal)),
    changes === 0 && refusal === null && h("p", { role: "status" }, h(StateBadge, { state: "fine" }, "It is like this already: nothing to change.")),
    rows.length > 0 && h(PlanRows, { rows }),
    warnings.map((warning) => h("p", { key: warning }, h(StateBadge, { state: "warning" }, warning))),
    commands.map((command) => h("p", { key: command, class: "plan-command" }, h(Copy, { text: command }))));
}

/** @param {{rows: PlanRow[]}} props those that change come first */
function PlanRows({ rows }) {
  const sorted = rows.toSorted((one, other) => Number(changes(other)) - Number(changes(one)));
  const noted = rows.some((row) => row.note);
  return h("div", { class: "plan-rows", tabIndex: 0, role: "group", "aria-label": "Preview" },
    h("table", { class: "plain" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Item"), h("th", { scope: "col" }, "Now"), h("th", { scope: "col" }, "Then"), noted && h("th", { scope: "col" }, "Note"))),
      h("tbody", null, sorted.slice(0, SHOWN_ROWS).map((row) =>
        h("tr", { key: row.item, class: changes(row) ? undefined : "muted" },
          h("th", { scope: "row" }, row.item),
          h("td", null, valueText(row.old)),
          h("td", null, changes(row) ? h("strong", null, row.new === null ? "gone" : valueText(row.new)) : valueText(row.new)),
          noted && h("td", null, row.note))))),
    rows.length > SHOWN_ROWS && h("p", { class: "muted" }, `and ${rows.length - SHOWN_ROWS} more`));
}

/** @param {PlanRow} row */
function changes(row) {
  return JSON.stringify(row.old) !== JSON.stringify(row.new);
}

/** @param {unknown} value */
function valueText(value) {
  return value === null || value === undefined ? "–" : String(value);
}

/** @param {{name: string, typed: string, onTyped: (text: string) => void}} props */
function TypedName({ name, typed, onTyped }) {
  const id = useId();
  return h("p", { class: "field" },
    h("label", { for: id }, "Type ", h("code", null, name), " to confirm"),
    h("input", { id, value: typed, autocomplete: "off", spellcheck: false, onInput: (/** @type {InputEvent} */ event) => onTyped(/** @type {HTMLInputElement} */ (event.target).value) }));
}

/**
 * It is carried out while this is shown; closing the dialog does not stop it.
 * @param {{plan: PlanFacts, typed: string, onRefused: (failure: import("../api.js").Failure) => void, onDone: () => void, onUndo: (id: string) => void, onClose: () => void}} props
 */
function Carried({ plan, typed, onRefused, onDone, onUndo, onClose }) {
  const [told, setTold] = useState(/** @type {{count: number, failures: ItemResult[]}} */ ({ count: 0, failures: [] }));
  const [outcome, setOutcome] = useState(/** @type {Outcome | null} */ (null));
  const [lost, setLost] = useState(/** @type {import("../api.js").Failure | null} */ (null));
  useEffect(() => {
    const carryOut = async () => {
      let begun = false;
      let failed = 0;
      let count = 0;
      // Only what is shown is kept: there may be 20,000 items.
      /** @type {ItemResult[]} */
      const failures = [];
      try {
        await stream(`plans/${plan.id}/apply`, (name, data) => {
          begun = true;
          if (name === "item") {
            count += 1;
            if (data.error && failures.length < SHOWN_ROWS) failures.push(data);
            setTold({ count, failures });
          }
          if (name === "end") {
            failed = data.failed;
            setOutcome(data);
          }
        }, { method: "POST", body: { hash: plan.hash, typed } });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (!begun) return onRefused(error.failure);
        failed = 1;
        setLost(error.failure);
      }
      refreshAll();
      return failed === 0 ? onDone() : undefined;
    };
    void carryOut();
  }, [plan.id]);
  const { count, failures } = told;
  const more = (outcome?.failed ?? 0) - failures.length;
  const undo = outcome?.undo;
  const over = outcome !== null || lost !== null;
  const close = useFocus(true);
  return h("div", { class: "plan" },
    lost && h(ErrorBox, { failure: lost }),
    h("p", { role: "status" }, outcome === null
      ? h(StateBadge, { state: "working" }, `${count} of ${plan.change_count} done`)
      : h(StateBadge, { state: outcome.failed ? "critical" : "fine" }, outcome.failed ? `${outcome.failed} of ${outcome.failed + outcome.done} failed` : `Done: ${counted(outcome.done, "item")}`)),
    failures.length > 0 && h("ul", { class: "failures" }, failures.map(({ item, error }) => h("li", { key: item }, h("strong", null, item), ` ${error}`))),
    more > 0 && failures.length > 0 && h("p", { class: "muted" }, `and ${more} more`),
    undo && h("p", null, "The old state is kept: ", h(Download, { path: `undo-files/${undo.id}` }, undo.file_name)),
    outcome?.undo_command && h("p", { class: "plan-command" }, h(Copy, { text: outcome.undo_command })),
    h("footer", { class: "actions" },
      undo && h("button", { type: "button", onClick: () => onUndo(undo.id) }, "Undo…"),
      h("button", { ref: close, type: "button", class: "primary", "aria-disabled": !over, onClick: () => over && onClose() }, "Close")));
}
