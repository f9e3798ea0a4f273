"""`kubectl drain` of a node whose broker cannot be spared: refused with the reason, and let through
when it can be. Without an operator nothing is held up."""

import uuid
from typing import Any

from tests.e2e.support.checked_load import checked
from tests.e2e.support.client_pods import ClientPod, JavaLoad
from tests.e2e.support.declared_brokers import SpareBrokers, ended
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.release import Release
from tests.e2e.support.topics import make_topic

PARTITIONS = 6


def test_a_drain_waits_for_a_broker_that_cannot_be_spared(
    namespace: Kubectl,
    images: Images,
    spare: SpareBrokers,
    spare_client: ClientPod,
    figures: Figures,
) -> None:
    """With another broker parked every partition is at min ISR. The drain is told why it waits, so
    are those who look at the Broker; it goes through by itself when the other one is back."""
    topic = f"load-{uuid.uuid4().hex[:6]}"
    make_topic(namespace, topic, spare, partitions=PARTITIONS)
    load = JavaLoad(namespace, images.java_client, spare.bootstrap, topic)
    with checked(load, spare_client, figures, "kubectl drain held up, then let through"):
        spare.declare(**spare.spec(maintenance={"park": [2]}))
        spare.kubectl.until(lambda: spare.phase(2) == "Parked", 120, spare.describe)
        uid = spare.uids()[0]
        with spare.draining(0) as drain:
            asked = spare.until_told(lambda told: _broker(told, 0).get("drainRequested"))
            assert _broker(asked, 0)["waitingOn"]
            events = spare.kubectl.list("events")
            assert "EvictionDeferred" in {event["reason"] for event in events}
            assert _budget(spare) == 0
            load.goes_on()
            assert spare.uids()[0] == uid, "it was evicted all the same"
            assert drain.poll() is None, drain.communicate()
            spare.declare(**spare.spec())
            said = ended(drain)
        assert f"Broker {spare.kubectl.namespace}/spare cannot be spared yet" in said, said
        spare.until_replaced(0, uid)
        spare.until_settled()
        load.goes_on()
    spare.kubectl.until(lambda: _budget(spare) == 1, 60, spare.describe)
    spare_client.until_healthy()


def test_a_drain_goes_on_when_no_operator_answers(
    release: Release, spare: SpareBrokers, spare_client: ClientPod
) -> None:
    """The webhook is not in the way of those who empty nodes; the disruption budget is there."""
    uid = spare.uids()[1]
    release.stop_operator()
    try:
        with spare.draining(1) as drain:
            said = ended(drain)
        assert "evicted" in said
        spare.until_replaced(1, uid)
        spare_client.until_healthy()
    finally:
        release.start_operator()
        release.until_ready()


def _broker(told: Any, node_id: int) -> Any:
    """What the status tells of one broker, empty where nothing."""
    return next((one for one in told.get("brokers", ()) if one["id"] == node_id), {})


def _budget(spare: SpareBrokers) -> int:
    budget = spare.kubectl.get("poddisruptionbudget", spare.name)
    return int(budget["spec"]["maxUnavailable"])
