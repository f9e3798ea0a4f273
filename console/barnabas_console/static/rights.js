// What of a page's buttons the viewer may not do, and why (CON-141).
import { usePolled } from "./api.js";
import { readOnly } from "./session.js";

/**
 * A missing right: in words, with the commands that give it and that tell which rule decides.
 * @typedef {{words: string, command: string, explain_command: string}} Lock
 */

/**
 * The lock of an act, by its name; undefined where it may be done, or where brokers do not tell.
 * @param {{topic?: string, group?: string}} [about]
 * @returns {(act: string) => Lock | undefined}
 */
export function useLocks(about = {}) {
  const query = new URLSearchParams(about);
  const { data } = usePolled(readOnly.value ? null : `rights?${query}`, { intervalMs: 15_000 });
  return (act) => data?.locks?.[act];
}
