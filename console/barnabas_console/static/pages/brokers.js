// Brokers, and one of them: settings, directories, partitions (CON-111).
import { h } from "../vendor/vendor.js";
import { usePolled } from "../api.js";
import { PageCommand } from "../parts/command.js";
import { Empty, Loaded } from "../parts/notices.js";
import { Lazy } from "../parts/lazy.js";
import { localRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { href, setQuery } from "../router.js";
import { brokerColumns } from "./broker_columns.js";

/** @typedef {import("./broker_columns.js").Broker} Broker */

const loadBroker = () => import("./broker.js");

/** @param {{cluster: string, params: string[], query: Record<string, string>}} props */
export default function Brokers({ cluster, params, query }) {
  if (params.length > 0) return h(Lazy, { load: loadBroker, props: { cluster, params, query } });
  return h(BrokerList, { query });
}

/** @param {{query: Record<string, string>}} props */
function BrokerList({ query }) {
  const polled = usePolled("brokers", { intervalMs: 2_000 });
  const sort = query["sort"] ?? "id";
  return h("div", null, h("h1", null, "Brokers"),
    h(Loaded, { polled, children: (/** @type {{rows: Broker[], command: string}} */ { rows, command }) => (rows.length === 0
      ? h(Empty, { title: "No broker answers.", command: "barnabas cluster status" })
      : h("div", null, h(Table, {
        label: "Brokers", wrap: true, columns: brokerColumns(rows), source: localRows(rows, sort), keyOf: (/** @type {Broker} */ broker) => broker.id,
        hrefOf: (/** @type {Broker} */ broker) => href(["brokers", String(broker.id)]), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
      }), h(PageCommand, { text: command }))) }));
}
