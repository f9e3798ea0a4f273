// The cluster itself: its metadata log, what moves, who may do what (CON-121). Each part is asked for alone.
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { Acls, Features, Quotas, Users } from "../parts/access_lists.js";
import { MetadataLog, Moves, Transactions } from "../parts/cluster_lists.js";
import { Empty, Loaded } from "../parts/notices.js";
import { Tabs } from "../parts/tabs.js";
import { href } from "../router.js";

/** @type {{key: string, title: string, part: any}[]} the path of the API, and what shows it */
const PARTS = [
  { key: "quorum", title: "Metadata log", part: MetadataLog },
  { key: "reassignments", title: "Moves", part: Moves },
  { key: "transactions", title: "Transactions", part: Transactions },
  { key: "quotas", title: "Quotas", part: Quotas },
  { key: "users", title: "Users", part: Users },
  { key: "acls", title: "ACLs", part: Acls },
  { key: "features", title: "Features", part: Features },
];

/** @param {{params: string[], query: Record<string, string>}} props */
export default function Cluster({ params, query }) {
  const named = params[0] ?? "quorum";
  const shown = PARTS.find(({ key }) => key === named) ?? PARTS[0];
  if (!shown) return null;
  return h("div", null, h("h1", null, "Cluster"),
    h(Tabs, { label: "Cluster", current: shown.key, tabs: PARTS.map(({ key, title }) => ({ key, title, href: href(["cluster", key]) })) }),
    h(Part, { key: shown.key, path: shown.key, part: shown.part, query }));
}

/** @param {{path: string, part: any, query: Record<string, string>}} props */
function Part({ path, part, query }) {
  const polled = usePolled(path, { intervalMs: 4_000 });
  if (polled.failure?.status === 501) return h(Empty, { title: "The brokers do not serve this." }, polled.failure.message);
  return h(Loaded, { polled, children: (/** @type {any} */ facts) => h(part, { facts, query, refresh: polled.refresh }) });
}
