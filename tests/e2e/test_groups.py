"""Resets of consumer groups by their resources: refused, carried out once, undone."""

import uuid
from typing import Any

import pytest

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.client_pods import CLIENTS, ClientPod, client_pod
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.topics import make_topic

RECORDS = 100
READ = 40


class Group:
    """A group that has read a part of a topic with one partition, and its resource."""

    def __init__(self, kubectl: Kubectl, client: ClientPod, brokers: BrokerCluster) -> None:
        self.kubectl = kubectl
        self.client = client
        self.name = f"group-{uuid.uuid4().hex[:6]}"
        self.topic = f"of-{self.name}"
        self._brokers = brokers

    def make(self) -> None:
        make_topic(self.kubectl, self.topic, self._brokers, partitions=1, deletionPolicy="Delete")
        self.client.barnabas("produce", self.topic, text="record\n" * RECORDS)
        self.read(READ)
        self.declare()

    def read(self, count: int) -> None:
        """Go on for so many records as a member, commit and leave."""
        self.client.barnabas("consume", self.topic, "-g", self.name, "-n", str(count))

    def declare(self, **spec: Any) -> None:
        reference = {"name": self._brokers.name, "namespace": self._brokers.kubectl.namespace}
        self.kubectl.apply(
            {
                "apiVersion": "barnabas.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"name": self.name},
                "spec": {"brokerRef": reference, **spec},
            }
        )

    def status(self) -> Any:
        return self.kubectl.get("consumergroup", self.name).get("status", {})

    def until(self, operation: str, identity: str, *phases: str) -> Any:
        """The operation of that id, once it has come to one of the phases."""

        def holds() -> bool:
            found = self.status().get(operation, {})
            return found.get("id") == identity and found.get("phase") in phases

        self.kubectl.until(holds, 60, lambda: str(self.status()))
        return self.status()[operation]

    def until_lag(self, lag: int) -> None:
        self.kubectl.until(lambda: self.status().get("lag") == lag, 60, lambda: str(self.status()))


@pytest.fixture
def group(namespace: Kubectl, demo: BrokerCluster, client: ClientPod) -> Group:
    made = Group(namespace, client, demo)
    made.make()
    made.until_lag(RECORDS - READ)
    return made


def change(group: Group) -> Any:
    """What the status says about the one partition."""
    return {
        "topic": group.topic,
        "partition": 0,
        "old": READ,
        "new": 0,
    }


def test_the_reset_of_a_live_group_is_refused(
    namespace: Kubectl, images: Images, demo: BrokerCluster, group: Group
) -> None:
    """A member would go on where it is and overwrite it; nothing is changed."""
    script = (CLIENTS / "group_member.py").read_text()
    arguments = [demo.bootstrap, group.topic, group.name]
    namespace.apply(client_pod("member", images.broker, ["python3", "-c", script, *arguments]))
    group.until_lag(0)
    group.declare(reset={"id": "live", "to": "earliest"})
    refused = group.until("reset", "live", "Refused")
    assert "member" in refused["message"]
    assert group.status()["lag"] == 0


def test_the_reset_of_an_empty_group_is_done_once_shown_and_undone(group: Group) -> None:
    """What was and what is are in the status; the same id does nothing a second time."""
    reset = {"id": "once", "to": "earliest"}
    group.declare(reset={**reset, "dryRun": True})
    assert group.until("reset", "once", "Preview")["partitions"] == [change(group)]
    group.until_lag(RECORDS - READ)
    group.declare(reset=reset)
    assert group.until("reset", "once", "Done")["partitions"] == [change(group)]
    group.until_lag(RECORDS)
    # Had it been done again, the lag would be as before.
    group.read(10)
    group.until_lag(RECORDS - 10)
    group.declare(reset=reset, undo={"id": "once"})
    group.until("undo", "once", "Done")
    group.until_lag(RECORDS - READ)
