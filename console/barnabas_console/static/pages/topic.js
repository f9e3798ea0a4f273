// One topic: its name, and a tab for each thing that is known of it.
import { h } from "../vendor/vendor.js";
import { Lazy } from "../parts/lazy.js";
import { Empty } from "../parts/notices.js";
import { Tabs } from "../parts/tabs.js";
import { TopicActions } from "../parts/topic_actions.js";
import { href } from "../router.js";
import { topicTabs } from "./index.js";

/** @param {{cluster: string, params: string[], query: Record<string, string>}} props */
export default function Topic({ cluster, params, query }) {
  const [topic = "", named] = params;
  const tab = named ?? Object.keys(topicTabs)[0] ?? "";
  const entry = topicTabs[tab];
  return h("div", { class: "topic" },
    h("div", { class: "page-head" }, h("h1", { class: "thing" }, topic), h(TopicActions, { topic })),
    h(Tabs, { label: "Topic", current: tab, tabs: Object.entries(topicTabs).map(([key, { title }]) => ({ key, title, href: href(["topics", topic, key]) })) }),
    entry ? h(Lazy, { key: tab, load: entry.load, props: { cluster, params: { topic, tab }, query } }) : h(Empty, { title: "There is no such tab." }));
}
