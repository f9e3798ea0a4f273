// The parts of the cluster's page about who may do what, and how much (CON-121).
import { h, useState } from "../vendor/vendor.js";
import { setQuery } from "../router.js";
import { useLocks } from "../rights.js";
import { readOnly } from "../session.js";
import { count } from "../words.js";
import { PageCommand } from "./command.js";
import { Choice, TextField } from "./fields.js";
import { ChangeButton } from "./lock.js";
import { Empty } from "./notices.js";
import { PlanDialog } from "./plan.js";
import { localRows } from "./rows.js";
import { StateBadge } from "./state.js";
import { Table } from "./table.js";

/** @typedef {{entity: string, quota: string, value: number}} Quota */
/** @typedef {{principal: string, permission: string, operation: string, resource_type: string, resource_name: string, pattern: string, host: string}} Acl */

/**
 * A list of rows, sorted in the page.
 * @param {{label: string, rows: any[], columns: import("./table.js").Column<any>[], keyOf: (row: any) => string, query: Record<string, string>, onOpen?: (row: any) => void}} props
 */
function List({ label, rows, columns, keyOf, query, onOpen }) {
  const sort = query["sort"] ?? columns[0]?.key ?? "";
  return h(Table, {
    label, wrap: true, columns, keyOf, source: localRows(rows, sort), sort, onSort: (/** @type {string} */ next) => setQuery({ sort: next }),
    ...(onOpen ? { onOpen } : {}),
  });
}

/** @param {{facts: {rows: Quota[]}, query: Record<string, string>}} props */
export function Quotas({ facts, query }) {
  const [open, setOpen] = useState(false);
  const locks = useLocks();
  return h("div", null,
    h("div", { class: "page-head" }, h(ChangeButton, { class: "push", lock: locks("change-quotas"), command: "barnabas quota set --user alice producer_byte_rate=1048576", onClick: () => setOpen(true) }, "Set a quota…")),
    facts.rows.length === 0
      ? h(Empty, { title: "There are no quotas: everybody may do as much as the brokers can.", command: "barnabas quota set --user alice producer_byte_rate=1048576" })
      : h(List, {
        label: "Quotas", rows: facts.rows, query, keyOf: (row) => `${row.entity} ${row.quota}`, columns: [
          { key: "entity", title: "Whose", cell: (/** @type {Quota} */ row) => row.entity },
          { key: "quota", title: "Quota", cell: (/** @type {Quota} */ row) => h("code", null, row.quota) },
          { key: "value", title: "Value", numeric: true, line: 1, cell: (/** @type {Quota} */ row) => count(row.value) },
        ],
      }),
    open && h(QuotaDialog, { onClose: () => setOpen(false) }),
    h(PageCommand, { text: "barnabas quota list" }));
}

/** @type {[string, string][]} */
const QUOTAS = [
  ["producer_byte_rate", "bytes produced a second"],
  ["consumer_byte_rate", "bytes fetched a second"],
  ["request_percentage", "per cent of a broker's time"],
  ["controller_mutation_rate", "partitions made and removed a second"],
  ["connection_creation_rate", "connections a second (addresses)"],
];

/** @param {{onClose: () => void}} props */
function QuotaDialog({ onClose }) {
  const [kind, setKind] = useState("user");
  const [name, setName] = useState("");
  const [quota, setQuota] = useState("producer_byte_rate");
  const [value, setValue] = useState("");
  const number = value.trim() === "" ? null : Number(value);
  const body = Number.isNaN(number) ? null : { kind: "change-quotas", entity: { [kind]: name.trim() || null }, quotas: { [quota]: number } };
  return h(PlanDialog, { title: "Set a quota", action: "Set", body, onClose },
    h("div", { class: "fields" },
      h(Choice, { label: "Of a", value: kind, choices: [["user", "user"], ["client-id", "client id"], ["ip", "address"]], onValue: setKind }),
      h(TextField, { label: "Name", value: name, onValue: setName, placeholder: "all without their own" }),
      h(Choice, { label: "Quota", value: quota, choices: QUOTAS, onValue: setQuota }),
      h(TextField, { label: "Value", kind: "number", value, onValue: setValue, placeholder: "remove it" })));
}

/** @param {{facts: {rows: {user: string, mechanism: string, iterations: number}[]}, query: Record<string, string>}} props */
export function Users({ facts, query }) {
  return h("div", null,
    facts.rows.length === 0
      ? h(Empty, { title: "Nobody logs in with a password of SCRAM.", command: "barnabas user create alice" })
      : h(List, {
        label: "Users", rows: facts.rows, query, keyOf: (row) => `${row.user} ${row.mechanism}`, columns: [
          { key: "user", title: "User", cell: (row) => row.user },
          { key: "mechanism", title: "Mechanism", line: 1, cell: (row) => row.mechanism },
          { key: "iterations", title: "Iterations", numeric: true, cell: (row) => count(row.iterations) },
        ],
      }),
    h(PageCommand, { text: "barnabas user list" }));
}

/** @param {{facts: {rows: Acl[], total: number}, query: Record<string, string>}} props */
export function Acls({ facts, query }) {
  const [removed, setRemoved] = useState(/** @type {Acl | null} */ (null));
  const [creating, setCreating] = useState(false);
  const lock = useLocks()("change-acls");
  return h("div", null,
    h("div", { class: "page-head" }, h(ChangeButton, { class: "push", lock, command: "barnabas acl create User:alice read --resource topic --name orders", onClick: () => setCreating(true) }, "Give a right…")),
    facts.rows.length === 0
      ? h(Empty, { title: "There are no ACLs.", command: "barnabas acl create User:alice read --resource topic --name orders" })
      : h(List, {
        label: "ACLs", rows: facts.rows, query, keyOf: (row) => Object.values(row).join(" "), ...(readOnly.value || lock ? {} : { onOpen: setRemoved }), columns: [
          { key: "principal", title: "Principal", cell: (/** @type {Acl} */ row) => row.principal },
          { key: "permission", title: "May", line: 1, width: 112, cell: (/** @type {Acl} */ row) => h(StateBadge, { state: row.permission === "deny" ? "critical" : "fine" }, row.permission) },
          { key: "operation", title: "What", width: 136, cell: (/** @type {Acl} */ row) => row.operation },
          { key: "resource_name", title: "On", cell: (/** @type {Acl} */ row) => `${row.resource_type} ${row.resource_name}${row.pattern === "prefixed" ? "…" : ""}` },
          { key: "host", title: "From", width: 120, cell: (/** @type {Acl} */ row) => (row.host === "*" ? "everywhere" : row.host) },
        ],
      }),
    facts.total > facts.rows.length && h("p", { class: "muted" }, `and ${count(facts.total - facts.rows.length)} more`),
    removed && h(PlanDialog, { title: "Delete an ACL", action: "Delete", danger: true, body: { kind: "delete-acl", ...removed }, onClose: () => setRemoved(null) }),
    creating && h(AclDialog, { onClose: () => setCreating(false) }),
    h(PageCommand, { text: "barnabas acl list" }));
}

const RESOURCES = ["topic", "group", "cluster", "transactional-id", "user"];
const OPERATIONS = ["read", "write", "describe", "create", "delete", "alter", "describe-configs", "alter-configs", "cluster-action", "idempotent-write", "all"];

/** @param {string[]} words @returns {[string, string][]} */
function choices(words) {
  return words.map((word) => [word, word]);
}

/** @param {{onClose: () => void}} props */
function AclDialog({ onClose }) {
  const [fields, setFields] = useState({ principal: "", permission: "allow", operation: "read", resource_type: "topic", resource_name: "", pattern: "literal", host: "*" });
  /** @param {string} name */
  const set = (name) => (/** @type {string} */ value) => setFields((old) => ({ ...old, [name]: value }));
  const resourceName = fields.resource_type === "cluster" ? "kafka-cluster" : fields.resource_name.trim();
  const complete = fields.principal.trim() && resourceName && fields.host.trim();
  const body = complete ? { kind: "create-acl", ...fields, principal: fields.principal.trim(), resource_name: resourceName } : null;
  return h(PlanDialog, { title: "Give a right", action: "Create", body, onClose },
    h("div", { class: "fields" },
      h(TextField, { label: "Principal", value: fields.principal, onValue: set("principal"), placeholder: "User:alice", autofocus: true }),
      h(Choice, { label: "Permission", value: fields.permission, choices: choices(["allow", "deny"]), onValue: set("permission") }),
      h(Choice, { label: "Operation", value: fields.operation, choices: choices(OPERATIONS), onValue: set("operation") }),
      h(Choice, { label: "Resource", value: fields.resource_type, choices: choices(RESOURCES), onValue: set("resource_type") }),
      fields.resource_type !== "cluster" && h(TextField, { label: "Name", value: fields.resource_name, onValue: set("resource_name"), placeholder: "orders, or * for all" }),
      fields.resource_type !== "cluster" && h(Choice, { label: "Pattern", value: fields.pattern, choices: [["literal", "exactly this name"], ["prefixed", "names that begin so"]], onValue: set("pattern") }),
      h(TextField, { label: "Host", value: fields.host, onValue: set("host") })));
}

/** @param {{facts: {rows: {feature: string, level: number, supported: string | null}[]}, query: Record<string, string>}} props */
export function Features({ facts, query }) {
  return h("div", null,
    h(List, {
      label: "Features", rows: facts.rows, query, keyOf: (row) => row.feature, columns: [
        { key: "feature", title: "Feature", cell: (row) => row.feature },
        { key: "level", title: "Level", numeric: true, line: 1, cell: (row) => String(row.level) },
        { key: "supported", title: "Brokers support", numeric: true, cell: (row) => row.supported ?? "–" },
      ],
    }),
    h(PageCommand, { text: "barnabas cluster features" }));
}
