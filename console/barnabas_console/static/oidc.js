// Log-in with an OpenID provider: leaving for it, and what comes back in the address (CON-140).
//
// The provider sends the browser to `oidc/callback`, which is this page; code and state are posted with the
// page's own header and taken out of the address at once, so that neither the history nor a copied link has them.
import { signal } from "./vendor/vendor.js";
import { ApiError, post } from "./api.js";
import { base, navigate } from "./router.js";

const CALLBACK = `${base}oidc/callback`;
const PLACE = "barnabas.place";
/** What a provider may answer; a longer or other text is somebody's who wants to be read here. */
const CODE = /^[a-z_]{1,40}$/;

/** @type {import("./vendor/vendor.js").Signal<import("./api.js").Failure | null>} */
export const returnFailure = signal(null);

/** Go to the provider; the page that was asked for is shown afterwards. */
export async function leave() {
  const { url } = await post("login/begin", {});
  try {
    sessionStorage.setItem(PLACE, location.pathname + location.search);
  } catch {
    // A browser may forbid storage; the start page is then shown.
  }
  location.assign(url);
}

/** Whether the provider has just sent the browser back. */
export function isBack() {
  return location.pathname === CALLBACK;
}

/** Log in with what the provider's answer brought. */
export async function comeBack() {
  const answer = new URLSearchParams(location.search);
  navigate(place(), { replace: true });
  const code = answer.get("code");
  if (!code) {
    const error = answer.get("error") ?? "";
    returnFailure.value = { status: 0, error: "login", message: `The provider let nobody in${CODE.test(error) ? `: ${error}` : ""}.` };
    return;
  }
  const iss = answer.get("iss");
  try {
    await post("login", { code, state: answer.get("state") ?? "", ...(iss === null ? {} : { iss }) });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    returnFailure.value = error.failure;
  }
}

/** The page that was asked for; one of ours, whatever is in the storage. */
function place() {
  try {
    const url = new URL(sessionStorage.getItem(PLACE) ?? base, location.origin);
    sessionStorage.removeItem(PLACE);
    if (url.origin === location.origin && url.pathname.startsWith(base) && url.pathname !== CALLBACK) return url.pathname + url.search;
  } catch {
    // As above, or what is kept is no address.
  }
  return base;
}
