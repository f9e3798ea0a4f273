// The frame around every page: header, navigation, the page itself, and what the keys do.
import { Fragment, h, useCallback, useEffect, useErrorBoundary, useRef, useState } from "./vendor/vendor.js";
import { post } from "./api.js";
import { Help } from "./help.js";
import { useKey } from "./keyboard.js";
import { Login } from "./login.js";
import { Lazy } from "./parts/lazy.js";
import { Empty, ErrorBox } from "./parts/notices.js";
import { NavigationIcon } from "./parts/icons.js";
import { pages } from "./pages/index.js";
import { theme, utc } from "./preferences.js";
import { href, route } from "./router.js";
import { Search } from "./search.js";
import { loggedOut, session, sessionFailure } from "./session.js";

export function App() {
  const [help, setHelp] = useState(false);
  useKey("?", useCallback(() => setHelp(true), []));
  useKey("c", useCallback(copyPrimary, []));
  return h("div", { class: "app" },
    h("a", { class: "skip", href: "#main" }, "To the page"),
    h(Header, { onHelp: () => setHelp(true) }),
    h(Navigation, {}),
    h(Outlet, {}),
    help && h(Help, { onClose: () => setHelp(false) }));
}

/** The command of the page that is shown, or of what is open over it. */
function copyPrimary() {
  const button = document.querySelector('[data-copy="primary"]');
  if (button instanceof HTMLElement) button.click();
}

/** @param {{onHelp: () => void}} props */
function Header({ onHelp }) {
  const { principal, cluster, login } = session.value ?? {};
  const dark = theme.value === "dark" || (theme.value === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  return h("header", { class: "top" },
    h("a", { class: "brand", href: href(["overview"]) }, "Barnabas"),
    h("span", { class: "cluster", title: "Cluster" }, cluster ?? route.value.cluster),
    h(Search, {}),
    h("span", { class: "tools" },
      principal && principal !== "User:ANONYMOUS" && h("span", { class: "principal", title: "Logged in as" }, principal),
      login && principal && h("button", { type: "button", class: "quiet", onClick: () => void logOut() }, "Log out"),
      h("button", { type: "button", class: "quiet", onClick: () => { utc.value = !utc.value; }, title: "Times in UTC or in this browser's zone", "aria-pressed": utc.value }, utc.value ? "UTC" : "Local"),
      h("button", { type: "button", class: "quiet", onClick: () => { theme.value = dark ? "light" : "dark"; }, "aria-label": dark ? "Light" : "Dark", title: dark ? "Light" : "Dark" }, h(ThemeIcon, {})),
      h("button", { type: "button", class: "quiet", onClick: onHelp, "aria-label": "Keys", title: "Keys" }, "?")));
}

/** Nothing that this user saw stays in the page for the next one. */
async function logOut() {
  const answer = await post("logout", {});
  // A provider that is not told would let the next one in as the same user.
  if (answer?.url) location.assign(answer.url);
  else location.reload();
}

function ThemeIcon() {
  return h("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    h("circle", { cx: 8, cy: 8, r: 6, fill: "none", stroke: "currentColor", "stroke-width": 1.4 }),
    h("path", { d: "M8 2a6 6 0 0 1 0 12Z", fill: "currentColor" }));
}

function Navigation() {
  const current = route.value.page;
  return h("nav", { class: "side", "aria-label": "Pages" },
    offered().map(([name, { title }]) =>
      h("a", { key: name, href: href([name]), "aria-current": name === current ? "page" : undefined },
        h(NavigationIcon, { name }), h("span", null, title))));
}

/** The pages that this cluster has facts for. */
function offered() {
  const apis = session.value?.apis ?? [];
  return Object.entries(pages).filter(([, { api, needs }]) => (api === undefined || apis.includes(api)) && (needs === undefined || session.value?.[needs]));
}

function Outlet() {
  const { page, params, query, cluster } = route.value;
  /** @type {import("./vendor/vendor.js").RefObject<HTMLElement | null>} */
  const main = useRef(null);
  const entry = pages[page];
  const place = [page, ...params].join("/");
  const before = useRef(place);
  useEffect(() => {
    document.title = `${[...params.slice(0, 1), entry?.title ?? "Nothing here"].join(" · ")} · Barnabas`;
    // A new page is read from its top; another tab of the same thing keeps the focus on its tab.
    if (before.current.split("/").slice(0, 2).join("/") !== [page, ...params].slice(0, 2).join("/")) main.current?.focus({ preventScroll: true });
    before.current = place;
  }, [place]);
  return h("main", { id: "main", ref: main, tabIndex: -1 }, h(Contents, { key: place, entry, props: { cluster, params, query } }));
}

/** @param {{entry: import("./pages/index.js").PageEntry | undefined, props: Record<string, unknown>}} props */
function Contents({ entry, props }) {
  const [error] = useErrorBoundary((thrown) => console.error(thrown));
  if (error) return h(Fragment, null, h("h1", null, "This page has failed"), h(ErrorBox, { failure: { status: 0, error: "page", message: String(error) }, onRetry: () => location.reload() }));
  if (loggedOut.value) return h(Login, {});
  if (!session.value && sessionFailure.value) return h(Fragment, null, h("h1", { class: "unseen" }, entry?.title ?? "Barnabas"), h(ErrorBox, { failure: sessionFailure.value }));
  if (!entry) return h(Fragment, null, h("h1", null, "Nothing here"), h(Empty, { title: "There is no such page." }, h("a", { href: href(["overview"]) }, "Overview")));
  return h(Lazy, { load: entry.load, props });
}
