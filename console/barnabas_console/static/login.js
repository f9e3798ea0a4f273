// The login form: where the console has one, every page asks for it until somebody is known (CON-140).
import { h, useState } from "./vendor/vendor.js";
import { ApiError, post } from "./api.js";
import { ErrorBox } from "./parts/notices.js";
import { leave, returnFailure } from "./oidc.js";
import { session } from "./session.js";

/** @typedef {import("./api.js").Failure} Failure */

export function Login() {
  return session.value?.login === "oidc" ? h(AtProvider, {}) : h(Form, {});
}

/** With a provider there is nothing to type here. */
function AtProvider() {
  const [failure, setFailure] = useState(returnFailure.value);
  const [busy, setBusy] = useState(false);
  /** @param {SubmitEvent} event */
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setFailure(null);
    try {
      await leave();
    } catch (error) {
      setBusy(false);
      if (!(error instanceof ApiError)) throw error;
      setFailure(error.failure);
    }
  };
  return h("form", { class: "login", onSubmit: submit },
    h("h1", null, "Log in"),
    h("p", { class: "muted" }, "With your account there. You see and do what the cluster's ACLs allow you."),
    failure && h(ErrorBox, { failure }),
    h("button", { type: "submit", class: "primary", "aria-disabled": busy, autofocus: true }, `Log in at ${session.value?.provider}`));
}

function Form() {
  const [failure, setFailure] = useState(/** @type {Failure | null} */ (null));
  const [busy, setBusy] = useState(false);
  const byPassword = session.value?.login === "sasl";
  /** @param {SubmitEvent} event */
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    const form = Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target)));
    setBusy(true);
    setFailure(null);
    try {
      await post("login", form);
      // What another user saw before must not stay in the page.
      location.reload();
    } catch (error) {
      setBusy(false);
      if (!(error instanceof ApiError)) throw error;
      setFailure(error.failure);
    }
  };
  return h("form", { class: "login", onSubmit: submit },
    h("h1", null, "Log in"),
    h("p", { class: "muted" }, `${byPassword ? "As your user of the cluster." : "With a token that the cluster accepts."} You see and do what its ACLs allow you.`),
    byPassword && h("label", { for: "username" }, "User"),
    byPassword && h("input", { id: "username", name: "username", autocomplete: "username", required: true, autofocus: true }),
    h("label", { for: "secret" }, byPassword ? "Password" : "Token"),
    h("input", { id: "secret", name: byPassword ? "password" : "token", type: "password", autocomplete: byPassword ? "current-password" : "off", required: true }),
    failure && h(ErrorBox, { failure }),
    h("button", { type: "submit", class: "primary", "aria-disabled": busy }, "Log in"));
}
