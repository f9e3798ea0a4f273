"""Three brokers under load on which bad specs are tried one after the other, and taken back.

Two clients watch meanwhile. Java's producer with its defaults numbers its records, all of which are
looked for in the end. A client without retries (`tests/e2e/clients/each_broker.py`) asks each
broker for itself, so that a request that fails is told with the broker that it failed at.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.support.bad_specs import (
    ANOTHER,
    CLAIMED_MAX,
    CLAIMS_MAX,
    ENDS,
    HANGS,
    REFUSED,
    TAKEN_NODE_PORT,
    BadSpec,
)
from tests.e2e.support.checked_load import check_history
from tests.e2e.support.client_pods import CLIENTS, ClientPod, Fared, JavaLoad, Stopwatch, client_pod
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.declared_brokers import SpareBrokers
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images, bad_broker
from tests.e2e.support.kubectl import Kubectl, KubectlError, condition_of
from tests.e2e.support.topics import make_topic

PARTITIONS = 6
TOLD_SECONDS = 120
ACTED_ON_SECONDS = 120
# What the issue asks for; noted and not asserted, because machines differ.
WANTED_SECONDS = 10


class EachBrokerPod:
    """A pod that asks each broker for itself and repeats nothing."""

    def __init__(self, kubectl: Kubectl, image: str, brokers: SpareBrokers, topic: str) -> None:
        self._kubectl = kubectl
        self._size = brokers.size
        script = (CLIENTS / "each_broker.py").read_text()
        arguments = [brokers.bootstrap, topic, str(brokers.size)]
        self._pod = client_pod("each-broker", image, ["python3", "-c", script, *arguments])
        self.name = "each-broker"

    def start(self) -> "EachBrokerPod":
        """Returns when all brokers have answered."""
        self._kubectl.apply(self._pod)
        self._kubectl.wait_for("Ready", f"pod/{self.name}")
        self.until_all_answer(0)
        return self

    def lines(self) -> list[Any]:
        """All that it has told so far."""
        text = self._kubectl.logs(self.name)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def until_all_answer(self, since: int) -> None:
        """A round with each broker has gone well after so many lines."""

        def holds() -> bool:
            rounds = [one["round"] for one in self.lines()[since:] if "round" in one]
            return bool(rounds) and rounds[-1]["well"] == list(range(self._size))

        self._kubectl.until(holds, 120, lambda: str(self.lines()[-10:]))

    def failures(self, since: int) -> list[Any]:
        """The requests that failed after so many lines."""
        return [one["failure"] for one in self.lines()[since:] if "failure" in one]

    def answered(self) -> int:
        """How many requests were answered in all."""
        return max(one["round"]["answered"] for one in self.lines() if "round" in one)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """How one spec was taken back: after how many seconds it was acted on, and all was well."""

    name: str
    acted_on_seconds: float
    ready_seconds: float


class BadSpecCourse:
    """The brokers, the clients, and what was measured."""

    def __init__(self, cluster: Cluster, images: Images, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._images = {
            ENDS: bad_broker(cluster, "ends", "echo no broker is in this build >&2; exit 3"),
            HANGS: bad_broker(cluster, "hangs", "exec sleep infinity"),
            ANOTHER: images.java_client,
        }
        self.brokers = SpareBrokers(kubectl, "tried")
        self.taken: list[Taken] = []
        self.tried = 0
        self._good = self.brokers.spec()
        kubectl.apply(_service_with_node_port(TAKEN_NODE_PORT + 1), _quota_of_claims())
        self.brokers.provide()
        self._client = ClientPod(kubectl, images.broker, self.brokers.bootstrap).start()
        make_topic(kubectl, "counted", self.brokers, partitions=PARTITIONS)
        make_topic(kubectl, "asked", self.brokers, partitions=PARTITIONS)
        self._load = JavaLoad(kubectl, images.java_client, self.brokers.bootstrap, "counted")
        self._load.start(PARTITIONS)
        self._each = EachBrokerPod(kubectl, images.broker, self.brokers, "asked").start()

    def try_one(self, row: BadSpec) -> None:
        """Declare it, see what is told, take it back, and see that nobody else has noticed."""
        self.brokers.provide()
        before, since = self.brokers.uids(), len(self._each.lines())
        try:
            self._declare_bad(row)
        finally:
            self._take_back(row, before)
        self._each.until_all_answer(since)
        after = self.brokers.uids()
        replaced = {node_id for node_id, uid in before.items() if after.get(node_id) != uid}
        assert len(replaced) <= row.restarts, f"brokers {replaced} were restarted"
        failures = self._each.failures(since)
        elsewhere = [one for one in failures if one["broker"] not in replaced]
        assert not elsewhere, elsewhere
        self._load.goes_on(more=20)
        self.tried += 1

    def end(self, figures: Figures) -> None:
        """Stop the load and look for each record that was acknowledged."""
        self._load.goes_on()
        fared: Fared = self._load.end()
        figures.note(f"{self.tried} bad specs under load", fared)
        figures.note("requests to each broker without retries", self._each.answered())
        late = [one for one in self.taken if one.acted_on_seconds > WANTED_SECONDS]
        slowest = max(self.taken, key=lambda one: one.acted_on_seconds)
        figures.note(
            "a bad spec taken back: the good one acted on, at most",
            f"{slowest.acted_on_seconds:.1f} s ({slowest.name}), {len(late)} of {len(self.taken)}"
            f" after more than {WANTED_SECONDS} s",
        )
        slowest = max(self.taken, key=lambda one: one.ready_seconds)
        figures.note(
            "a bad spec taken back: all Ready again, at most",
            f"{slowest.ready_seconds:.1f} s ({slowest.name})",
        )
        assert fared.errors == 0, fared
        assert fared.acknowledged == fared.sent, fared
        check_history(self._load, self._client, fared)
        self._client.until_healthy()

    def _declare_bad(self, row: BadSpec) -> None:
        spec = self._with_images(_merged(self._good, row.spec))
        if row.image:
            spec["image"] = self._images[row.image]
        if row.reason == REFUSED:
            with pytest.raises(KubectlError) as refused:
                self.brokers.declare(**spec)
            assert row.matches(str(refused.value)), refused.value
            return
        self.brokers.declare(**spec)
        seen: set[tuple[str, str]] = set()

        def is_told() -> bool:
            self._check_away()
            resource = self.brokers.resource()
            told = condition_of(resource, "Ready")
            if told["observedGeneration"] != resource["metadata"]["generation"]:
                return False
            seen.add((told["reason"], told["message"]))
            return (
                told["status"] == "False"
                and told["reason"] == row.reason
                and row.matches(told["message"])
            )

        self._kubectl.until(
            is_told, TOLD_SECONDS, lambda: f"told so far: {seen}\n{self.brokers.describe()}"
        )

    def _take_back(self, row: BadSpec, before: Mapping[int, str]) -> None:
        bad = {
            node_id: uid
            for node_id, uid in self.brokers.uids().items()
            if before.get(node_id) != uid
        }
        watch = Stopwatch()
        self.brokers.declare(**self._good)

        def is_acted_on() -> bool:
            """The operator has seen it, and no pod of the bad spec is left as it was."""
            self._check_away()
            resource = self.brokers.resource()
            if resource["status"]["observedGeneration"] != resource["metadata"]["generation"]:
                return False
            return all(
                (pod := self.brokers.pod(node_id)) is None
                or pod["metadata"]["uid"] != uid
                or pod["metadata"].get("deletionTimestamp") is not None
                for node_id, uid in bad.items()
            )

        self._kubectl.until(is_acted_on, ACTED_ON_SECONDS, self.brokers.describe)
        acted_on_seconds = watch.seconds()

        def is_settled() -> bool:
            self._check_away()
            return self.brokers.is_settled()

        self._kubectl.until(is_settled, 300, self.brokers.describe)
        taken = Taken(
            name=row.name, acted_on_seconds=acted_on_seconds, ready_seconds=watch.seconds()
        )
        if row.reason != REFUSED:
            self.taken.append(taken)
        print(
            f"{row.name}: acted on after {acted_on_seconds:.1f} s, all Ready after"
            f" {taken.ready_seconds:.1f} s"
        )

    def _check_away(self) -> None:
        away = [one for one in range(self.brokers.size) if not self.brokers.is_pod_ready(one)]
        assert len(away) <= 1, f"brokers {away} are away at once\n{self.brokers.describe()}"

    def _with_images(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The spec with the images of containers that the test makes."""
        template = spec.get("podTemplate", {})
        for container in (*template.get("containers", ()), *template.get("initContainers", ())):
            if container.get("image") in self._images:
                container["image"] = self._images[container["image"]]
        return spec


def _merged(good: Mapping[str, Any], bad: Mapping[str, Any]) -> dict[str, Any]:
    """The good spec with what is bad; settings are added, all else takes its place."""
    merged = copy.deepcopy({**good, **bad})
    if "config" in bad:
        merged["config"] = {**good["config"], **bad["config"]}
    return merged


def _service_with_node_port(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
    }


def _quota_of_claims() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "claims"},
        "spec": {
            "hard": {"persistentvolumeclaims": str(CLAIMS_MAX), "requests.storage": CLAIMED_MAX}
        },
    }
