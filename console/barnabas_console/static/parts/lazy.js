// A page whose module is loaded when it is first shown.
import { h, useEffect, useState } from "../vendor/vendor.js";
import { ErrorBox, Skeleton } from "./notices.js";

/** @type {Map<() => Promise<{default: any}>, any>} */
const loaded = new Map();

/**
 * Load a page before the frame is painted, so that both appear at once; a page that cannot be loaded says so
 * in its place.
 * @param {() => Promise<{default: any}>} load
 */
export async function loadEarly(load) {
  try {
    loaded.set(load, (await load()).default);
  } catch {
    // `Lazy` tries again.
  }
}

/** @param {{load: () => Promise<{default: any}>, props: Record<string, unknown>}} props */
export function Lazy({ load, props }) {
  const [, paint] = useState(0);
  const [failed, setFailed] = useState(false);
  const Page = loaded.get(load);
  useEffect(() => {
    if (loaded.has(load)) return;
    setFailed(false);
    load().then((module) => {
      loaded.set(load, module.default);
      paint((count) => count + 1);
    }, () => setFailed(true));
  }, [load]);
  if (failed) {
    const failure = { status: 0, error: "page_missing", message: "This page could not be loaded.", hint: "The console may have been stopped or renewed: load the page anew." };
    return h(ErrorBox, { failure, onRetry: () => location.reload() });
  }
  return Page ? h(Page, props) : h(Skeleton, { rows: 6 });
}
