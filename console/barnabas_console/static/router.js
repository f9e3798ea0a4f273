// Where the browser is: `{base}{cluster}/{page}/{parameters}?{query}`, as signals (CON-124).
//
// Links are plain `<a href>`; a click on one of ours changes the page without loading it anew.
import { computed, signal } from "./vendor/vendor.js";

/** @typedef {Record<string, string>} Query */
/** @typedef {{cluster: string, page: string, params: string[], query: Query}} Route */

/** The path prefix the console is served under, with a slash at its end. */
export const base = `${document.querySelector('meta[name="barnabas-prefix"]')?.getAttribute("content") ?? ""}/`;

const address = signal(location.pathname + location.search);
/** The cluster's name where the path has none yet; the session tells it. */
export const ownCluster = signal("");

/** @type {import("./vendor/vendor.js").ReadonlySignal<Route>} */
export const route = computed(() => parse(address.value));

/**
 * @param {string} text path and query
 * @returns {Route}
 */
export function parse(text) {
  const url = new URL(text, location.origin);
  const path = url.pathname.startsWith(base) ? url.pathname.slice(base.length) : url.pathname.slice(1);
  const [cluster = "", page = "", ...params] = path.split("/").filter(Boolean).map(decoded);
  return { cluster, page: page || "overview", params, query: Object.fromEntries(url.searchParams) };
}

/** @param {string} segment */
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/**
 * The path of a page: `href(["topics", "orders", "records"], {at: "newest"})`.
 * @param {string[]} segments
 * @param {Record<string, string | number | boolean | null | undefined>} [query] empty values are left out
 */
export function href(segments, query = {}) {
  const cluster = route.value.cluster || ownCluster.value;
  const path = [cluster, ...segments].filter(Boolean).map(encodeURIComponent).join("/");
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) search.set(name, String(value));
  }
  const text = search.toString();
  return base + path + (text ? `?${text}` : "");
}

/**
 * @param {string} to path and query, from `href`
 * @param {{replace?: boolean}} [options] `replace` where going back should not stop here
 */
export function navigate(to, { replace = false } = {}) {
  if (to === address.value) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  const moved = parse(to).page !== route.value.page || parse(to).params.join("/") !== route.value.params.join("/");
  address.value = to;
  if (moved && !replace) scrollTo(0, 0);
}

/**
 * Change parts of the query of the page that is shown.
 * @param {Record<string, string | number | boolean | null | undefined>} changes
 * @param {{replace?: boolean}} [options]
 */
export function setQuery(changes, { replace = true } = {}) {
  const { page, params, query } = route.value;
  navigate(href([page, ...params], { ...query, ...changes }), { replace });
}

addEventListener("popstate", () => {
  address.value = location.pathname + location.search;
});

addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!(link instanceof HTMLAnchorElement) || link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
  if (!link.pathname.startsWith(base) || link.pathname.startsWith(`${base}api/`) || link.hash) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
});
