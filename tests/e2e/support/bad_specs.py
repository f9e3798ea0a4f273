"""Specs of a Broker that users get wrong, and what each of them is told: a row each.

`docs/bad-specs.md` has the same table, and `tests/e2e/test_bad_specs.py` tries every row. This
writes the table into the page:

    python -m tests.e2e.support.bad_specs
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).resolve().parents[3] / "docs" / "bad-specs.md"
BEGIN, END = "<!-- the table: tests/e2e/support/bad_specs.py -->\n", "<!-- end of the table -->\n"
# What rows name and the test puts into its namespace, or does not.
TAKEN_NODE_PORT = 31999
CLAIMS_MAX = 3
CLAIMED_MAX = "3Gi"
# In what is told `…` stands for any text, and N for the id of a broker.
_ANY, _BROKER = "…", "broker N"

# Why a Broker is not Ready; REFUSED is no condition but what `kubectl apply` says.
REFUSED = ""
STOPPED = "RollStopped"
RESTARTING = "Restarting"
PROGRESSING = "Progressing"
ATTENTION = "NeedsAttention"
INVALID = "InvalidSpec"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadSpec:
    """One row: `spec` is merged into a good one, `image` names one that the test makes.

    `told` is the message of the condition Ready with this `reason`, or the refusal. `restarts`
    tells whether a broker is restarted for it: one at most, and then the roll stops.
    """

    name: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    image: str = ""
    reason: str = REFUSED
    told: str
    restarts: bool = False
    is_quick: bool = False

    def matches(self, text: str) -> bool:
        """Whether this is what is to be told."""
        parts = (re.escape(part) for part in self.told.split(_ANY))
        pattern = ".*".join(parts).replace(re.escape(_BROKER), "broker [0-9]")
        return re.search(pattern, text, re.DOTALL) is not None

    def declared(self) -> str:
        """What somebody has written, on one line."""
        shown = {**({"image": self.image} if self.image else {}), **self.spec}
        text = yaml.safe_dump(shown, default_flow_style=True, sort_keys=False, width=10_000)
        return str(text).strip()[1:-1]


def _pod(**template: Any) -> dict[str, Any]:
    return {"podTemplate": template}


def _broker_container(**fields: Any) -> dict[str, Any]:
    return _pod(containers=[{"name": "broker", **fields}])


def _resources(**resources: Any) -> dict[str, Any]:
    return {"resources": resources}


def _external(**fields: Any) -> dict[str, Any]:
    given = {"type": "NodePort", "advertisedHost": "kafka.example.com", **fields}
    return {"listeners": {"external": given}}


# Images that the test makes: what their program does instead of being a broker.
HANGS = "an image that hangs"
ENDS = "an image that ends"
ANOTHER = "an image without a broker"

_IMAGES = (
    BadSpec(
        name="a tag that does not exist",
        spec={"image": "localhost/barnabas-broker:no-such-tag"},
        reason=STOPPED,
        told="broker N cannot start: ImagePullBackOff: …barnabas-broker:no-such-tag…",
        restarts=True,
        is_quick=True,
    ),
    BadSpec(
        name="a registry that lets nobody in, and a pull secret that does not exist",
        spec={
            "image": "127.0.0.1:1/barnabas-broker:1",
            **_pod(imagePullSecrets=[{"name": "no-such-secret"}]),
        },
        reason=STOPPED,
        told="broker N cannot start: ImagePullBackOff: …127.0.0.1:1/barnabas-broker:1…"
        "no-such-secret…",
        restarts=True,
    ),
    BadSpec(
        name="an image whose name is none",
        spec={"image": "barnabas:one:two"},
        reason=STOPPED,
        told="broker N cannot start: InvalidImageName: …barnabas:one:two…",
        restarts=True,
    ),
    BadSpec(
        name="an image of something else",
        image=ANOTHER,
        reason=STOPPED,
        told='broker N cannot start: …exec: "barnabas": executable file not found…',
        restarts=True,
    ),
    BadSpec(
        name="an image whose program ends at once",
        image=ENDS,
        reason=STOPPED,
        told="broker N cannot start: CrashLoopBackOff: exit code 3: no broker is in this build",
        restarts=True,
    ),
    BadSpec(
        name="an image whose program hangs",
        image=HANGS,
        reason=RESTARTING,
        told="broker N: its pod runs and does not answer yet",
        restarts=True,
    ),
)

_SETTINGS = (
    BadSpec(
        name="a setting that does not exist",
        spec={"config": {"num.io.thread": 8}},
        reason=STOPPED,
        told="settings that brokers do not know: num.io.thread",
    ),
    BadSpec(
        name="a value out of range, of a setting that can change while brokers run",
        spec={"config": {"log.retention.ms": -5}},
        reason=ATTENTION,
        told="settings are refused: …Invalid value -5 for configuration log.retention.ms:"
        " Value must be at least -1",
        is_quick=True,
    ),
    BadSpec(
        name="a value that is no number, of a setting that is read once",
        spec={"config": {"queued.max.request.bytes": "plenty"}},
        reason=STOPPED,
        told="broker N cannot start: CrashLoopBackOff: exit code 1: …Invalid value plenty for"
        " configuration queued.max.request.bytes: Not a number of type LONG",
        restarts=True,
        is_quick=True,
    ),
    BadSpec(
        name="settings that contradict each other",
        spec={"config": {"replica.fetch.wait.max.ms": 60000}},
        reason=STOPPED,
        told="broker N cannot start: CrashLoopBackOff: exit code 1: …replica.fetch.wait.max.ms:"
        " 60000 is more than replica.socket.timeout.ms, which is 30000",
        restarts=True,
    ),
    BadSpec(
        name="a setting that is the operator's",
        spec={"config": {"log.dirs": "/data"}},
        reason=INVALID,
        told="spec.config.log.dirs: the operator decides this setting itself",
    ),
)

_LISTENERS = (
    BadSpec(
        name="one port for two listeners",
        spec=_external(nodePortBase=31990, port=9092),
        told="9090 to 9093, 9097 and 9644 are the brokers' other ports",
    ),
    BadSpec(
        name="a node port that somebody else has",
        spec=_external(nodePortBase=TAKEN_NODE_PORT),
        reason=ATTENTION,
        told="…provided port is already allocated…",
    ),
    BadSpec(
        name="a node port out of range",
        spec=_external(nodePortBase=80),
        reason=ATTENTION,
        told="…provided port is not in the valid range…",
    ),
    BadSpec(
        name="brokers that clients could not tell apart",
        spec=_external(port=9094),
        told="brokers have to differ, by {id} in advertisedHost or by a port base",
    ),
)

_RESOURCES = (
    BadSpec(
        name="more processors than any node has",
        spec=_resources(requests={"cpu": "1000"}),
        reason=RESTARTING,
        told="broker N: its pod cannot start (Unschedulable: …Insufficient cpu…)",
        restarts=True,
        is_quick=True,
    ),
    BadSpec(
        name="a device that no node has",
        spec=_resources(limits={"example.com/gpu": 1}),
        reason=RESTARTING,
        told="broker N: its pod cannot start (Unschedulable: …Insufficient example.com/gpu…)",
        restarts=True,
    ),
    BadSpec(
        name="a limit below the request",
        spec=_resources(requests={"memory": "2Gi"}, limits={"memory": "1Gi"}),
        reason=RESTARTING,
        told="broker N: it has no pod yet (FailedCreate: …must be less than or equal to memory"
        " limit of 1Gi…)",
        restarts=True,
    ),
    BadSpec(
        name="too little memory",
        spec=_resources(limits={"memory": "24Mi"}),
        reason=STOPPED,
        told="broker N cannot start: CrashLoopBackOff: exit code 137 (OOMKilled)",
        restarts=True,
    ),
    BadSpec(
        name="no quantity",
        spec=_resources(requests={"memory": "1 GB"}),
        told="spec.resources.requests.memory in body should match",
    ),
)

_STORAGE = (
    BadSpec(
        name="smaller volumes",
        spec={"storage": {"size": "512Mi"}},
        told="a volume cannot shrink",
        is_quick=True,
    ),
    BadSpec(
        name="larger volumes than the quota of the namespace lets there be",
        spec={"storage": {"size": "1000Gi"}},
        reason=ATTENTION,
        told="…exceeded quota: claims, requested: requests.storage=999Gi…",
    ),
    BadSpec(
        name="another storage class, which does not exist",
        spec={"storage": {"size": "1Gi", "storageClassName": "no-such-class"}},
        told="storageClassName cannot change",
    ),
)

_PLACES = (
    BadSpec(
        name="labels that no node has",
        spec=_pod(nodeSelector={"disk": "none"}),
        reason=RESTARTING,
        told="broker N: its pod cannot start (Unschedulable: …didn't match Pod's node"
        " affinity/selector…)",
        restarts=True,
    ),
    BadSpec(
        name="a field of the affinity that is misspelt",
        spec=_pod(affinity={"nodeAffinty": {}}),
        reason=ATTENTION,
        told="…nodeAffinty…",
    ),
    BadSpec(
        name="a priority class that does not exist",
        spec=_pod(priorityClassName="no-such-class"),
        reason=RESTARTING,
        told="broker N: it has no pod yet (FailedCreate: …no PriorityClass with name no-such-class"
        " was found)",
        restarts=True,
    ),
    BadSpec(
        name="a scheduler that does not exist",
        spec=_pod(schedulerName="no-such-scheduler"),
        reason=RESTARTING,
        told="broker N: its pod has no node yet, and waits for the scheduler no-such-scheduler",
        restarts=True,
    ),
)

_PODS = (
    BadSpec(
        name="a volume of a ConfigMap that does not exist",
        spec=_pod(
            containers=[{"name": "broker", "volumeMounts": [{"name": "ca", "mountPath": "/ca"}]}],
            volumes=[{"name": "ca", "configMap": {"name": "no-such-map"}}],
        ),
        reason=RESTARTING,
        told='broker N: its pod starts (FailedMount: …configmap "no-such-map" not found)',
        restarts=True,
        is_quick=True,
    ),
    BadSpec(
        name="a variable from a Secret that does not exist",
        spec=_broker_container(
            env=[
                {
                    "name": "TOKEN",
                    "valueFrom": {"secretKeyRef": {"name": "no-such-secret", "key": "token"}},
                }
            ]
        ),
        reason=STOPPED,
        told='broker N cannot start: CreateContainerConfigError: secret "no-such-secret" not found',
        restarts=True,
    ),
    BadSpec(
        name="a mount of a volume that is not declared",
        spec=_broker_container(volumeMounts=[{"name": "ca", "mountPath": "/etc/ca"}]),
        reason=RESTARTING,
        told='broker N: it has no pod yet (FailedCreate: …volumeMounts[…].name: Not found: "ca"…)',
        restarts=True,
    ),
    BadSpec(
        name="a mount over the broker's data",
        spec=_broker_container(volumeMounts=[{"name": "data", "mountPath": "/var/lib/barnabas"}]),
        told="nothing may be mounted over or into /var/lib/barnabas, /var/lib/barnabas-volumes,"
        " /etc/barnabas and /tmp of the broker",
    ),
    BadSpec(
        name="an init container that fails",
        spec=_pod(
            initContainers=[{"name": "prepare", "image": ENDS, "command": ["barnabas"]}],
        ),
        reason=STOPPED,
        told="broker N cannot start: container prepare: CrashLoopBackOff: exit code 3…",
        restarts=True,
    ),
    BadSpec(
        name="root, where root is forbidden",
        spec=_pod(securityContext={"runAsUser": 0}),
        reason=STOPPED,
        told="broker N cannot start: CreateContainerConfigError: container's runAsUser breaks"
        " non-root policy…",
        restarts=True,
    ),
    BadSpec(
        name="a sysctl that the kubelet does not allow",
        spec=_pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}),
        reason=STOPPED,
        told="broker N cannot start: SysctlForbidden: …kernel.msgmax…",
        restarts=True,
    ),
    BadSpec(
        name="another probe",
        spec=_broker_container(livenessProbe={"exec": {"command": ["true"]}}),
        told="of the container broker only env, envFrom, volumeMounts and securityContext may be"
        " set here",
    ),
    BadSpec(
        name="another service account",
        spec=_pod(serviceAccountName="no-such-account"),
        told='unknown field "serviceAccountName"',
    ),
    BadSpec(
        name="a label that is none",
        spec=_pod(labels={"team": "pay ments"}),
        reason=ATTENTION,
        told='…Invalid value: "pay ments"…',
    ),
)

_AMOUNTS = (
    BadSpec(
        name="more brokers than the quota of the namespace lets there be",
        spec={"replicas": 4},
        reason=PROGRESSING,
        told="broker 3: it has no pod yet (FailedCreate: …exceeded quota: claims…)",
    ),
    BadSpec(
        name="a broker that is parked and emptied",
        spec={"maintenance": {"park": [2], "decommission": [2]}},
        told="a broker that is parked cannot give its partitions away",
    ),
    BadSpec(
        name="a maintenance window at no time",
        spec={"maintenance": {"windows": [{"schedule": "61 25 * * *", "durationMinutes": 60}]}},
        reason=INVALID,
        told="spec.maintenance.windows.0.schedule: '61 25 * * *' is no schedule…",
    ),
    BadSpec(
        name="less time to stop than a broker needs",
        spec={"terminationGracePeriodSeconds": 5},
        told="spec.terminationGracePeriodSeconds in body should be greater than or equal to 30",
    ),
)

ROWS = (
    *_IMAGES,
    *_SETTINGS,
    *_LISTENERS,
    *_RESOURCES,
    *_STORAGE,
    *_PLACES,
    *_PODS,
    *_AMOUNTS,
)


def table() -> str:
    """The rows as the page has them."""
    lines = ["| what is wrong | declared | what you are told |", "|---|---|---|"]
    for row in ROWS:
        who = "`kubectl apply` is refused" if row.reason == REFUSED else f"`{row.reason}`"
        told = row.told.replace("|", "\\|")
        lines.append(f"| {row.name} | `{row.declared()}` | {who}: `` {told} `` |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
