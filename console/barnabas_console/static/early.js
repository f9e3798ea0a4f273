// A classic script that runs before the first paint: it names the theme, so that nothing flashes, lets the
// browser fetch the modules of the page that the address names beside those of the frame, and loads the page
// anew where one of them did not come: a network that changes breaks off what is under way.
{
  /** @type {string | null} */
  let chosen = null;
  try {
    chosen = localStorage.getItem("barnabas.theme");
  } catch {
    // A browser may forbid storage; the system's theme is then used.
  }
  if (chosen === '"dark"' || chosen === '"light"') document.documentElement.dataset.theme = chosen.slice(1, -1);

  /** @type {Record<string, string[]>} by the page's name in the address; what is missing here is found later */
  const modules = {
    "": ["overview", "broker_columns"],
    overview: ["overview", "broker_columns"],
    brokers: ["brokers", "broker_columns", "broker"],
    topics: ["topics", "topic", "topic_records"],
    groups: ["groups"],
  };
  const prefix = document.querySelector('meta[name="barnabas-prefix"]')?.getAttribute("content") ?? "";
  const page = location.pathname.slice(prefix.length + 1).split("/")[1] ?? "";
  for (const name of (Object.hasOwn(modules, page) ? modules[page] : null) ?? []) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = /** @type {HTMLScriptElement} */ (document.currentScript).src.replace("early.js", `pages/${name}.js`);
    document.head.append(link);
  }

  const TRIES_MAX = 5;
  addEventListener("error", (event) => {
    if (!(event.target instanceof HTMLScriptElement)) return;
    const tries = Number(sessionStorage.getItem("barnabas.loads") ?? 0);
    if (tries >= TRIES_MAX) return;
    sessionStorage.setItem("barnabas.loads", String(tries + 1));
    setTimeout(() => location.reload(), 300 * 2 ** tries);
  }, { capture: true });
}
