// Tabs of a thing as links: each has an address of its own.
import { h, useLayoutEffect, useRef } from "../vendor/vendor.js";

/** @param {{label: string, current: string, tabs: {key: string, title: any, href: string}[]}} props */
export function Tabs({ label, current, tabs }) {
  /** @type {import("../vendor/vendor.js").RefObject<HTMLElement | null>} */
  const bar = useRef(null);
  // Where there is no room for all of them, the one that is shown is seen.
  useLayoutEffect(() => {
    const shown = bar.current?.querySelector("[aria-current]");
    if (!bar.current || !(shown instanceof HTMLElement)) return;
    const { left, right } = shown.getBoundingClientRect();
    const seen = bar.current.getBoundingClientRect();
    if (left < seen.left || right > seen.right) bar.current.scrollLeft += left - seen.left - (seen.width - (right - left)) / 2;
  }, [current]);
  return h("nav", { ref: bar, class: "tabs", "aria-label": label },
    tabs.map(({ key, title, href }) =>
      h("a", { key, href, "aria-current": key === current ? "page" : undefined }, title)));
}
