// The pages and the tabs of a topic, in the order of the navigation. One line each; a module is loaded
// when its page is opened. A page is `export default function Page({cluster, params, query})`.

/**
 * `api` names what the session must list for the page to be offered; without one it always is.
 * `needs` names what the session must have.
 * @typedef {{title: string, load: () => Promise<{default: any}>, api?: string, needs?: "kubernetes"}} PageEntry
 */

/** @type {Record<string, PageEntry>} */
export const pages = {
  overview: { title: "Overview", load: () => import("./overview.js") },
  brokers: { title: "Brokers", load: () => import("./brokers.js") },
  topics: { title: "Topics", load: () => import("./topics.js") },
  groups: { title: "Groups", load: () => import("./groups.js") },
  cluster: { title: "Cluster", load: () => import("./cluster.js") },
  kubernetes: { title: "Kubernetes", needs: "kubernetes", load: () => import("./kubernetes.js") },
};

/** @type {Record<string, PageEntry>} */
export const topicTabs = {
  records: { title: "Records", load: () => import("./topic_records.js") },
  partitions: { title: "Partitions", load: () => import("./topic_partitions.js") },
  settings: { title: "Settings", load: () => import("./topic_settings.js") },
  groups: { title: "Groups", load: () => import("./topic_groups.js") },
  traffic: { title: "Traffic", load: () => import("./topic_traffic.js") },
};
