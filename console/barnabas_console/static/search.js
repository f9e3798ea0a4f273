// The search of the header: topics and groups by a part of their name, from every page.
import { h, useCallback, useEffect, useRef, useState } from "./vendor/vendor.js";
import { ApiError, get } from "./api.js";
import { useKey } from "./keyboard.js";
import { href, navigate } from "./router.js";

/** @typedef {{kind: "topic" | "group", name: string, to: string}} Hit */

const HITS_MAX = 8;
const AGAIN_MS = 1_000;
const TRIES_MAX = 10;

export function Search() {
  /** @type {import("./vendor/vendor.js").RefObject<HTMLInputElement | null>} */
  const field = useRef(null);
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const [open, setOpen] = useState(false);
  const { hits, searched } = useHits(text);
  // Enter that came before the hits of its text holds for them.
  const [entered, setEntered] = useState("");
  useEffect(() => {
    if (!entered || searched !== entered || text !== entered) return;
    setEntered("");
    choose(hits[0]);
  }, [entered, searched, text]);
  useKey("/", useCallback(() => field.current?.focus(), []));

  /** @param {Hit | undefined} hit */
  const choose = (hit) => {
    if (!hit) return;
    setText("");
    setOpen(false);
    field.current?.blur();
    navigate(hit.to);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setActive((old) => (old + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % Math.max(1, hits.length));
    } else if (event.key === "Enter") {
      if (searched === text) choose(hits[active] ?? hits[0]);
      else setEntered(text);
    } else if (event.key === "Escape") {
      setText("");
      field.current?.blur();
    }
  };
  const shown = open && text.trim() !== "";
  return h("div", { class: "search", role: "search" },
    h("input", {
      ref: field, type: "search", role: "combobox", placeholder: "Search topics and groups", "aria-label": "Search topics and groups",
      "aria-expanded": shown, "aria-controls": "search-hits", "aria-autocomplete": "list", autocomplete: "off", spellcheck: false, value: text,
      "aria-activedescendant": shown && hits[active] ? `hit-${active}` : undefined, onKeyDown,
      onInput: (/** @type {InputEvent} */ event) => { setText(/** @type {HTMLInputElement} */ (event.target).value); setActive(0); setOpen(true); },
      onFocus: () => setOpen(true), onBlur: () => setOpen(false),
    }),
    h("kbd", { class: "hint", "aria-hidden": "true" }, "/"),
    h("ul", { id: "search-hits", role: "listbox", "aria-label": "Topics and groups", hidden: !shown },
      shown && hits.map((hit, index) =>
        h("li", { key: `${hit.kind} ${hit.name}`, id: `hit-${index}`, role: "option", "aria-selected": index === active, class: "hit",
          onMouseDown: (/** @type {MouseEvent} */ event) => event.preventDefault(), onClick: () => choose(hit) },
        h("span", { class: "hit-name" }, hit.name), h("span", { class: "hit-kind" }, hit.kind))),
      shown && hits.length === 0 && searched === text && h("li", { class: "hit none", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "No topic and no group has this in its name.")));
}

/**
 * What the server finds for a text; the hits of the text before stay until then.
 * @param {string} text
 */
function useHits(text) {
  const [state, setState] = useState(/** @type {{hits: Hit[], searched: string}} */ ({ hits: [], searched: "" }));
  useEffect(() => {
    const sought = text.trim();
    if (!sought) return undefined;
    const aborter = new AbortController();
    const query = new URLSearchParams({ q: sought, limit: String(HITS_MAX) });
    let again = 0;
    let tries = 0;
    const search = () => Promise.all([
      found(`topics?${query}`, aborter.signal, (row) => ({ kind: "topic", name: row.topic, to: href(["topics", row.topic]) })),
      found(`groups?${query}`, aborter.signal, (row) => ({ kind: "group", name: row.group, to: href(["groups", row.group]) })),
    ]).then(([topics, groups]) => {
      if (aborter.signal.aborted) return;
      const hits = ranked([...topics, ...groups], sought);
      setState({ hits, searched: text });
      // What was made just now comes with the next reading of the cluster.
      tries += 1;
      if (hits.length === 0 && tries < TRIES_MAX) again = window.setTimeout(search, AGAIN_MS);
    }, () => undefined);
    void search();
    return () => {
      window.clearTimeout(again);
      aborter.abort();
    };
  }, [text]);
  return state;
}

/**
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {(row: any) => Hit} hitOf
 * @returns {Promise<Hit[]>} none where the cluster refuses the list
 */
async function found(path, signal, hitOf) {
  try {
    return (await get(path, { signal })).rows.map(hitOf);
  } catch (error) {
    if (error instanceof ApiError) return [];
    throw error;
  }
}

/**
 * The name itself first, then names that begin with the text.
 * @param {Hit[]} hits
 * @param {string} sought
 */
function ranked(hits, sought) {
  const small = sought.toLowerCase();
  /** @param {Hit} hit */
  const rank = ({ name }) => (name.toLowerCase() === small ? 0 : name.toLowerCase().startsWith(small) ? 1 : 2);
  return hits.toSorted((one, other) => rank(one) - rank(other)).slice(0, HITS_MAX);
}
