// Whether the page is narrow: a phone, or a browser at 400 %. Tables then have two-line rows (CON-154).
import { signal } from "../vendor/vendor.js";

const query = matchMedia("(max-width: 719px)");
export const narrow = signal(query.matches);
query.addEventListener("change", () => {
  narrow.value = query.matches;
});
