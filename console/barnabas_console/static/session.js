// Who is looking, at which cluster: `GET /api/v1/session`, once per tab and after a login.
import { computed, effect, signal } from "./vendor/vendor.js";
import { ApiError, get, loginNeeded } from "./api.js";
import { href, navigate, ownCluster, route } from "./router.js";

/**
 * `login` names how one logs in where nobody has, `provider` with whom; `apis` are the APIs that brokers serve, null while
 * none answers.
 * @typedef {{principal: string | null, read_only: boolean, cluster: string, version: string, apis: string[] | null, kubernetes?: boolean, login?: string | null, provider?: string | null}} Session
 */

/** @type {import("./vendor/vendor.js").Signal<Session | null>} */
export const session = signal(null);
/** @type {import("./vendor/vendor.js").Signal<import("./api.js").Failure | null>} */
export const sessionFailure = signal(null);

/** Whether nobody is logged in where one has to be (CON-140). */
export const loggedOut = computed(() => loginNeeded.value || Boolean(session.value?.login && !session.value.principal));

/** Whether changes are offered at all (CON-143): buttons are commands otherwise. */
export const readOnly = computed(() => session.value?.read_only ?? true);

/** Ask until it is known; a console that is starting answers a moment later. */
export async function openSession() {
  for (;;) {
    try {
      const answer = await get("session");
      ownCluster.value = answer.cluster;
      sessionFailure.value = null;
      session.value = answer;
      return;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      sessionFailure.value = error.failure;
      if (loginNeeded.value) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

// A path without a cluster is the start page of the one there is.
effect(() => {
  if (session.value && !route.value.cluster) navigate(href(["overview"]), { replace: true });
});
