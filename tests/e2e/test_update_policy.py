"""Who decides when brokers are restarted: the operator, a person who has seen the plan, nobody."""

import uuid
from typing import Any

from tests.e2e.support.client_pods import ClientPod, Stopwatch
from tests.e2e.support.declared_brokers import SPARE_CONFIG, SpareBrokers
from tests.e2e.support.figures import Figures
from tests.e2e.support.kubectl import Kubectl, condition_of
from tests.support.waiting import wait_until

# A setting that brokers read once, when they start.
READ_ONCE = {**SPARE_CONFIG, "queued.max.request.bytes": 100_000_000}
# Several passes of the operator: each change of the resource causes one.
LEFT_ALONE_SECONDS = 10
NO_SUCH_IMAGE = "localhost/barnabas-broker:there-is-no-such-tag"


def stays_as_it_is(spare: SpareBrokers, before: dict[int, str]) -> None:
    """For some time no broker is restarted."""
    watch = Stopwatch()

    def is_over() -> bool:
        assert spare.uids() == before, "a broker was restarted"
        return watch.seconds() > LEFT_ALONE_SECONDS

    wait_until(is_over, 2 * LEFT_ALONE_SECONDS, spare.describe, interval_seconds=1)


def test_a_plan_that_needs_approval_is_shown_and_waits_for_its_hash(
    spare: SpareBrokers, spare_client: ClientPod
) -> None:
    """`status.plan` lists each restart with its reason; an approval holds for that plan only."""
    before = spare.uids()
    spare.declare(**spare.spec(updatePolicy="OnApproval", config=READ_ONCE))
    told = spare.until_told(lambda told: len(told.get("plan", {}).get("restarts") or ()) == 3)
    plan = told["plan"]
    assert {one["broker"] for one in plan["restarts"]} == {0, 1, 2}
    assert plan["restarts"][-1]["broker"] == told["controller"]
    for restart in plan["restarts"]:
        assert restart["reasons"] == ["setting queued.max.request.bytes changed"]
    assert plan["waitingOn"] == f"approval of plan {plan['hash']}"
    spare.annotate("barnabas.dev/approve", "of-another-plan")
    stays_as_it_is(spare, before)
    spare.annotate("barnabas.dev/approve", plan["hash"])
    spare.until_settled()
    after = spare.uids()
    assert all(after[node_id] != uid for node_id, uid in before.items())
    spare_client.until_healthy()
    config = spare_client.barnabas("config", "describe", "broker", "0", "--all", "-o", "json")
    assert "100000000" in config
    # What was approved once does not approve the way back.
    spare.declare(**spare.spec(updatePolicy="OnApproval"))
    spare.until_told(lambda told: told.get("plan", {}).get("restarts"))
    stays_as_it_is(spare, after)


def test_a_paused_broker_is_left_alone_and_looked_at(spare: SpareBrokers) -> None:
    """Nothing is done, not even for a pod's sake; the status goes on telling what is."""
    before = spare.uids()
    spare.declare(**spare.spec(paused=True))
    spare.annotate("barnabas.dev/restart", uuid.uuid4().hex)
    paused = spare.until_told(
        lambda told: (
            (_ready(told) or {}).get("reason") == "Paused"
            and len(told.get("plan", {}).get("restarts") or ()) == 3
        )
    )
    assert paused["plan"]["waitingOn"] == "the Broker is paused"
    stays_as_it_is(spare, before)
    # Kubernetes itself makes a pod again; the operator tells so and does no more.
    spare.kubectl.delete("pod", spare.pod_name(1))
    spare.kubectl.until(lambda: spare.is_pod_ready(1), 120, spare.describe)
    spare.until_told(lambda told: told.get("readyReplicas") == 3)
    others = {node_id: uid for node_id, uid in before.items() if node_id != 1}
    assert {node_id: spare.uids()[node_id] for node_id in others} == others
    spare.provide()
    after = spare.uids()
    assert all(after[node_id] != uid for node_id, uid in before.items())


def test_pods_of_an_image_that_is_not_there_give_way_to_the_next_one(
    namespace: Kubectl, spare: SpareBrokers, spare_client: ClientPod, figures: Figures
) -> None:
    """The roll stops at the first broker, says why, and spares the others. What Kubernetes itself
    never does (kubernetes#67250): the pod that cannot start is replaced when the image is right."""
    before = spare.uids()
    spare.declare(**spare.spec(image=NO_SUCH_IMAGE))
    stopped = spare.until_told(lambda told: (_stalled(told) or {}).get("reason") == "RollStopped")
    message = _stalled(stopped)["message"]
    stuck = [one["id"] for one in stopped["brokers"] if one["phase"] == "Stuck"]
    assert len(stuck) == 1
    assert message.startswith(f"broker {stuck[0]} cannot start: "), message
    assert "ImagePull" in message or "ErrImage" in message
    left = {node_id: uid for node_id, uid in before.items() if node_id not in stuck}
    stays_as_it_is(spare, {**left, stuck[0]: spare.uids()[stuck[0]]})
    spare_client.barnabas("topic", "create", f"meanwhile-{uuid.uuid4().hex[:6]}")
    watch = Stopwatch()
    spare.provide()
    figures.note("a bad image taken back, until Ready", f"{watch.seconds():.1f} s")
    after = spare.uids()
    assert {node_id: after[node_id] for node_id in left} == left, "one was restarted needlessly"
    spare_client.until_healthy()


def _ready(told: Any) -> Any:
    return condition_of({"status": told}, "Ready")


def _stalled(told: Any) -> Any:
    found = condition_of({"status": told}, "Stalled")
    return found if found is not None and found["status"] == "True" else None
