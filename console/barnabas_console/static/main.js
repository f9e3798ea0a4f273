// Starts the page.
import { h, render } from "./vendor/vendor.js";
import { App } from "./app.js";
import { loadEarly } from "./parts/lazy.js";
import { pages } from "./pages/index.js";
import { comeBack, isBack } from "./oidc.js";
import { route } from "./router.js";
import { openSession } from "./session.js";

const root = document.getElementById("app");
if (isBack()) {
  // The frame that the document brought stays as it is until then.
  document.title = "Logging in…";
  await comeBack();
}
void openSession();
const entry = pages[route.value.page];
if (entry) await loadEarly(entry.load);
if (root) render(h(App, {}), root);
sessionStorage.removeItem("barnabas.loads");
