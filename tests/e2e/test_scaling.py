"""More brokers and fewer, while a Java client produces: what is moved, what is left alone."""

import json
import uuid
from itertools import groupby
from typing import Any

from tests.e2e.support.checked_load import checked
from tests.e2e.support.client_pods import ClientPod, JavaLoad, Stopwatch
from tests.e2e.support.declared_brokers import SpareBrokers
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.topics import make_topic

PARTITIONS = 6
RECORDS = 3000


def test_a_broker_more_and_then_one_less_goes_unnoticed(
    namespace: Kubectl,
    images: Images,
    spare: SpareBrokers,
    spare_client: ClientPod,
    figures: Figures,
) -> None:
    """`kubectl scale` to four restarts nobody; back to three first empties the fourth, which the
    status shows, and takes its pod away only then. Its volume stays."""
    topic = f"load-{uuid.uuid4().hex[:6]}"
    make_topic(namespace, topic, spare, partitions=PARTITIONS)
    load = JavaLoad(namespace, images.java_client, spare.bootstrap, topic)
    before = spare.uids()
    with checked(load, spare_client, figures, "scale from 3 brokers to 4 and back"):
        watch = Stopwatch()
        spare.kubectl.run("scale", f"broker/{spare.name}", "--replicas=4")
        spare.until_settled()
        figures.note("a fourth broker, scale to Ready", f"{watch.seconds():.1f} s")
        held = _fill_the_fourth(namespace, spare, spare_client)
        assert spare.uids() == before
        load.goes_on()
        watch = Stopwatch()
        seen = _scale_in(spare)
        took = watch.seconds()
        load.goes_on()
    figures.note(
        "scale in of a broker",
        f"{took:.1f} s, {held} partitions given away first; left: {seen}",
    )
    assert spare.uids() == before, "a broker was restarted that had nothing to do with it"
    assert spare.claim(3) is not None
    assert seen[0] > 0 and seen == sorted(seen, reverse=True)
    brokers = json.loads(spare_client.barnabas("cluster", "brokers", "-o", "json"))
    assert len(brokers) == 3, brokers
    read = spare_client.barnabas("consume", "moved", "--max-records", str(RECORDS))
    assert sorted(map(int, read.split())) == list(range(RECORDS))
    spare_client.until_healthy()


def test_three_brokers_become_one_and_three_again(
    namespace: Kubectl, spare: SpareBrokers, spare_client: ClientPod
) -> None:
    """The one that is left leads the control plane, also after a restart; then there are three
    again, and what follows the size does so on each of them."""
    small = {"offsets.topic.num.partitions": 6}
    spare.declare(**spare.spec(config=small))
    spare.until_settled()
    make_topic(namespace, "kept", spare, partitions=1, replicas=1)
    spare_client.barnabas("produce", "kept", text="written with three\n")
    spare.declare(**spare.spec(replicas=1, config=small))
    spare.kubectl.until(lambda: spare.is_settled() and spare.pod(1) is None, 300, spare.describe)
    assert spare.told()["controller"] == 0
    spare_client.barnabas("topic", "create", "alone")
    uid = spare.uids()[0]
    spare.kubectl.delete("pod", spare.pod_name(0))
    spare.until_replaced(0, uid)
    spare.until_settled()
    # The Service had no other pod: the nodes learn of the new one a moment after it is ready.
    spare_client.until_reached()
    spare_client.barnabas("produce", "kept", text="written with one\n")
    spare.declare(**spare.spec(config=small))
    spare.until_settled()
    spare_client.barnabas("topic", "create", "later")
    (later,) = json.loads(spare_client.barnabas("topic", "describe", "later", "-o", "json"))
    assert {len(one["replicas"]) for one in later["partition_list"]} == {3}
    read = spare_client.barnabas("consume", "kept", "--max-records", "2")
    assert read == "written with three\nwritten with one\n"


def test_a_broker_is_parked_and_comes_back(
    namespace: Kubectl, spare: SpareBrokers, spare_client: ClientPod
) -> None:
    """Parked it has no process, and keeps its volume; the others serve meanwhile."""
    make_topic(namespace, "parked", spare, partitions=PARTITIONS)
    spare.declare(**spare.spec(maintenance={"park": [2]}))
    spare.kubectl.until(lambda: spare.phase(2) == "Parked", 120, spare.describe)
    assert spare.pod(2)["spec"].get("nodeName") is None
    assert spare.claim(2) is not None
    spare_client.barnabas("produce", "parked", text="written while one is parked\n")
    spare.provide()
    spare_client.until_healthy()
    read = spare_client.barnabas("consume", "parked", "--max-records", "1")
    assert read == "written while one is parked\n"


def test_a_broker_is_emptied_and_goes_on_running(
    namespace: Kubectl, spare: SpareBrokers, spare_client: ClientPod
) -> None:
    """What only two brokers have may leave the third; what all three have cannot, and is named."""
    make_topic(namespace, "everywhere", spare, partitions=1)
    make_topic(
        namespace, "pairs", spare, partitions=PARTITIONS, replicas=2, deletionPolicy="Delete"
    )
    spare.declare(**spare.spec(maintenance={"decommission": [2]}))

    def holders() -> set[int]:
        (described,) = json.loads(spare_client.barnabas("topic", "describe", "pairs", "-o", "json"))
        return {holder for one in described["partition_list"] for holder in one["replicas"]}

    spare.kubectl.until(lambda: holders() == {0, 1}, 120, spare.describe)
    told = spare.until_told(lambda told: told.get("decommission", {}).get("message"))
    assert told["decommission"]["broker"] == 2
    assert "has 3 replicas" in told["decommission"]["message"]
    assert spare.is_pod_ready(2)


def _fill_the_fourth(namespace: Kubectl, spare: SpareBrokers, client: ClientPod) -> int:
    """Records on the new broker; how many partitions it then holds."""
    make_topic(namespace, "moved", spare, partitions=12)
    client.barnabas("produce", "moved", text="".join(f"{n}\n" for n in range(RECORDS)))
    brokers = json.loads(client.barnabas("cluster", "brokers", "-o", "json"))
    (held,) = (one["replicas"] for one in brokers if one["broker"] == 3)
    return int(held)


def _scale_in(spare: SpareBrokers) -> list[int]:
    """Back to three; how many partitions were left, as the status told it."""
    with spare.kubectl.watching("broker", spare.name) as states:
        spare.kubectl.run("scale", f"broker/{spare.name}", "--replicas=3")

        def is_gone() -> bool:
            if spare.pod(3) is not None:
                return False
            # Asked after the pod, and not taken from the watch: on a busy machine that lags behind,
            # and ends with the API server, so it may tell of a time when the pod was there.
            assert not _partitions_left(spare.resource()), "its pod went before its partitions"
            return spare.is_settled()

        spare.kubectl.until(is_gone, 300, spare.describe)
        told = [_partitions_left(state) for state in states]
    return [left for left, _ in groupby(told) if left]


def _partitions_left(broker: Any) -> int:
    """What the status of a Broker says that a broker which goes still holds."""
    told = broker.get("status", {}).get("decommission", {})
    return int(told.get("partitionsLeft") or 0)
