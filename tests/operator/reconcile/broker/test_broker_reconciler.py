"""The reconciler against an API server and brokers in memory, from nothing to ready and on."""

import asyncio
from typing import Any

import pytest

from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONFIG_MAP,
    EVENT,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    ROLE,
    SERVICE,
    STATEFUL_SET,
)
from tests.operator.reconcile.broker.broker_world import (
    BROKEN_IMAGE,
    NAME,
    NAMESPACE,
    BrokerWorld,
    settled,
)
from tests.support.fake_kubernetes_store import merge_patched


def test_a_new_broker_resource_becomes_three_ready_brokers() -> None:
    """Issue 6: helm install, then apply; the status tells it."""
    world = settled()
    assert world.ready_ids() == {0, 1, 2}
    assert world.status["ready"] == "3/3"
    assert world.status["selector"] == "barnabas.dev/broker=demo"
    assert world.status["safeToDrain"] == "yes"
    assert world.status["plan"]["summary"] == "done"
    assert world.condition("Ready")["status"] == "True"
    assert [one["phase"] for one in world.status["brokers"]] == ["Ready"] * 3


def test_an_idle_broker_causes_no_write() -> None:
    """operator.md 3.9: idle is zero writes."""
    world = settled()
    for _ in range(20):
        asyncio.run(world.reconcile())
        world.tick()
    assert world.api.writes == []


def test_a_disk_that_fills_up_is_a_condition_and_one_event() -> None:
    """VOL-5: the condition goes with it; Ready stays as it is."""
    world = settled()
    world.full_disks = {1: ("/data is FULL, reserve 5 of 100 bytes",)}
    for _ in range(5):
        asyncio.run(world.reconcile())
        world.tick()
    condition = world.condition("DiskGuard")
    assert condition["status"] == "True"
    assert condition["message"] == "broker 1: /data is FULL, reserve 5 of 100 bytes"
    assert world.condition("Ready")["status"] == "True"
    told = world.store.list(EVENT, NAMESPACE, lambda one: one["reason"] == "DisksFillUp")
    assert [event.get("count", 1) for event in told] == [1]
    world.full_disks = {}
    asyncio.run(world.reconcile())
    assert "DiskGuard" not in [one["type"] for one in world.status["conditions"]]


def test_a_new_operator_that_finds_all_well_writes_nothing() -> None:
    """operator.md 3.21: an upgrade of the operator restarts nobody."""
    world = settled()
    world.start_operator()
    asyncio.run(world.settle())
    assert world.api.writes == []
    assert world.restarted == []


def test_a_setting_that_needs_a_restart_restarts_one_after_the_other_controller_last() -> None:
    """operator.md 5: one pod at a time, the controller last, every restart with its reason."""
    world = settled(config={"num.recovery.threads": "1"})
    world.controller = 1
    world.change({"spec": {"config": {"num.recovery.threads": "2"}}})
    asyncio.run(world.settle())
    assert world.restarted == [0, 2, 1]
    reasons = [one["lastRestartReason"] for one in world.status["brokers"]]
    assert reasons == ["setting num.recovery.threads changed"] * 3
    assert "num.recovery.threads=2" in config_file(world)
    assert "restarting" not in world.status
    assert world.condition("Ready")["status"] == "True"


def test_a_setting_that_can_change_in_place_restarts_nobody() -> None:
    """operator.md 5: if only dynamic config changed, alter in place."""
    world = settled()
    world.change({"spec": {"config": {"log.retention.ms": 1000}}})
    asyncio.run(world.settle())
    assert world.overrides == {"log.retention.ms": "1000"}
    assert world.restarted == []
    world.change({"spec": {"config": {"log.retention.ms": None}}})
    asyncio.run(world.settle())
    assert world.overrides == {}
    assert world.restarted == []


def test_settings_that_the_brokers_refuse_are_told_in_the_status_and_nothing_loops() -> None:
    """operator.md 3.14: a bad setting must not stick unseen."""
    world = settled()
    world.refused_settings = "log.retention.ms: too small"
    world.change({"spec": {"config": {"log.retention.ms": -5, "num.io.threads": 9}}})
    asyncio.run(world.settle())
    assert "too small" in world.condition("Stalled")["message"]
    assert world.overrides == {"num.io.threads": "9"}
    world.refused_settings = ""
    world.change({"spec": {"config": {"log.retention.ms": 5}}})
    asyncio.run(world.settle())
    assert world.condition("Stalled") == {}


def test_a_setting_that_no_broker_knows_restarts_nobody_into_a_crash() -> None:
    """A broker with an unknown key does not start; those that run go on (style.md 4)."""
    world = settled()
    world.change({"spec": {"config": {"log.retentoin": 1}}})
    asyncio.run(world.settle())
    assert world.restarted == []
    assert "log.retentoin" in world.condition("Stalled")["message"]


def test_a_broken_image_stops_the_roll_at_the_first_broker_and_the_next_image_mends_it() -> None:
    """operator.md 3.14 and 5: stuck pods of an old revision are replaced, others stop the roll."""
    world = settled()
    world.change({"spec": {"image": BROKEN_IMAGE}})
    asyncio.run(world.settle())
    assert len(world.restarted) == 1
    assert world.condition("Stalled")["reason"] == "RollStopped"
    assert "ImagePullBackOff" in world.condition("Stalled")["message"]
    world.change({"spec": {"image": "good:2"}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2}
    assert images(world) == {"good:2"}
    assert world.condition("Ready")["status"] == "True"


def test_a_cluster_that_never_could_start_is_mended_by_a_correct_image() -> None:
    """kubernetes#67250: all pods are stuck, and none can become ready before the others go."""
    world = BrokerWorld(3, image=BROKEN_IMAGE)
    asyncio.run(world.settle())
    assert world.condition("Stalled")["reason"] == "RollStopped"
    world.change({"spec": {"image": "good:1"}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2}


def test_a_roll_waits_for_replicas_and_says_for_which() -> None:
    """operator.md 3.4: waiting for the ISR is a state; the partition is named."""
    world = settled()
    world.partitions[1].in_sync, world.partitions[1].slow = {0, 1}, {2}
    world.annotate("restart", "now")
    for _ in range(20):
        asyncio.run(world.reconcile())
        world.tick()
    # Broker 2 is not in sync there: taking it costs nothing. The others would.
    assert world.status["plan"]["waitingOn"] == "broker 2: orders-1 catch up"
    assert world.restarted == [2]
    world.partitions[1].slow = set()
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]


def test_partitions_without_a_spare_replica_hold_up_nothing_and_are_named() -> None:
    """operator.md 3.5: factor 1, or min ISR = factor, would block rolls for ever."""
    world = settled()
    world.add_topic("logs", [1], in_sync_min=1)
    world.annotate("restart", "now")
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]
    assert "logs-0" in world.condition("Warning")["message"]


def test_the_last_replica_in_sync_is_waited_for_where_no_broker_could_be_spared() -> None:
    """A topic of two replicas in a cluster of three, one of which has not caught up since a crash:
    the other one's restart took all of it away.
    """
    world = settled()
    world.add_topic("pair", [0, 1])
    pair = world.partitions[-1]
    pair.in_sync, pair.slow = {1}, {0}
    world.store.update(
        POD,
        NAMESPACE,
        f"{NAME}-1",
        lambda old: merge_patched(
            old, {"metadata": {"annotations": {"barnabas.dev/restart": "now"}}}
        ),
    )
    for _ in range(20):
        asyncio.run(world.reconcile())
        world.tick()
    assert world.restarted == []
    assert world.status["plan"]["waitingOn"] == "broker 1: pair-0 cannot spare it"
    pair.slow = set()
    asyncio.run(world.settle())
    assert world.restarted == [1]


def test_on_approval_nothing_restarts_before_the_plan_is_approved() -> None:
    """operator.md 8.6: status.plan lists restarts and reasons; approve by its hash."""
    world = settled(updatePolicy="OnApproval")
    world.change({"spec": {"resources": {"limits": {"memory": "2Gi"}}}})
    asyncio.run(world.settle())
    plan = world.status["plan"]
    assert [one["broker"] for one in plan["restarts"]] == [1, 2, 0]
    assert plan["restarts"][0]["reasons"] == ["resources changed"]
    assert plan["waitingOn"] == f"approval of plan {plan['hash']}"
    assert world.restarted == []
    world.annotate("approve", plan["hash"])
    asyncio.run(world.settle())
    assert world.restarted == [1, 2, 0]


@pytest.mark.parametrize("spec", [{"updatePolicy": "Paused"}, {"paused": True}])
def test_a_paused_broker_is_left_alone_and_still_tells(spec: dict[str, Any]) -> None:
    """operator.md 1: pause is honoured everywhere and visible in the status."""
    world = settled(**spec) if "updatePolicy" in spec else settled()
    world.change({"spec": {**spec, "image": "good:3"}})
    asyncio.run(world.settle())
    assert world.restarted == []
    assert len(world.status["plan"]["restarts"]) == 3
    assert "restarting" not in world.status


def test_more_brokers_come_without_a_restart_of_the_others() -> None:
    """operator.md 5: scale-out restarts nobody."""
    world = settled()
    world.change({"spec": {"replicas": 5}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2, 3, 4}
    assert world.restarted == []
    assert world.status["replicas"] == 5


def test_fewer_brokers_first_give_their_partitions_away() -> None:
    """operator.md 3.16 and 5: cordon, move, then remove; highest ordinals, one at a time."""
    world = settled(5)
    world.add_topic("wide", [4, 3, 0], [3, 4, 1], [2, 4, 3])
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert world.restarted == [4, 3]
    assert world.registered == {0, 1, 2}
    assert all(sorted(one.replicas) == [0, 1, 2] for one in world.partitions)
    assert len(world.claims()) == 5
    assert world.status["ready"] == "3/3"
    world.change({"spec": {"replicas": 4}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2, 3}


def test_a_broker_that_nobody_can_replace_stays() -> None:
    """operator.md 5: scale-in is blocked while the broker holds replicas; the reason is told."""
    world = settled()
    world.change({"spec": {"replicas": 2}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2}
    message = world.condition("Stalled")["message"]
    assert message == "orders-0 has 3 replicas, and without broker 2 there are 2 brokers"


def test_all_brokers_can_be_stopped_and_come_back_with_their_data() -> None:
    """operator.md 3.17: scale to zero; nothing is moved, nothing forgotten."""
    world = settled()
    world.is_available = False
    world.change({"spec": {"replicas": 0}})
    asyncio.run(world.settle())
    assert world.ready_ids() == set()
    assert len(world.claims()) == 3
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2}
    assert world.registered == {0, 1, 2}


def test_a_parked_broker_stops_keeps_its_volume_and_comes_back() -> None:
    """operator.md 3.17: maintenance for one broker, with its volume and its address."""
    world = settled()
    world.change({"spec": {"maintenance": {"park": [1]}}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 2}
    assert world.restarted == [1]
    assert world.status["brokers"][1]["phase"] == "Parked"
    world.change({"spec": {"maintenance": {"park": []}}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2}
    assert world.restarted == [1]


def test_a_decommissioned_broker_holds_nothing_and_runs_on() -> None:
    """operator.md 1: maintenance names brokers to decommission."""
    world = settled(4)
    world.add_topic("wide", [3, 1, 0], [1, 2, 3])
    world.change({"spec": {"maintenance": {"decommission": [3]}}})
    asyncio.run(world.settle())
    assert all(3 not in one.replicas for one in world.partitions)
    assert world.ready_ids() == {0, 1, 2, 3}


def test_volumes_grow_and_the_stateful_set_follows_without_a_restart() -> None:
    """operator.md 5: grow the PVC; the claim template follows by making the set anew."""
    world = settled()
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard"},
        "allowVolumeExpansion": True,
    }
    world.put(storage_class)
    world.change({"spec": {"storage": {"size": "20Gi"}}})
    asyncio.run(world.settle())
    sizes = {one["spec"]["resources"]["requests"]["storage"] for one in world.claims()}
    assert sizes == {"20Gi"}
    stateful_set = world.store.get(STATEFUL_SET, NAMESPACE, NAME)
    (template,) = stateful_set["spec"]["volumeClaimTemplates"]
    assert template["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert world.restarted == []


def test_the_budget_for_evictions_is_closed_while_replicas_are_missing() -> None:
    """operator.md 4: catch-up guard; and never for ever."""
    world = settled()
    world.partitions[0].in_sync, world.partitions[0].slow = {0, 1}, {2}
    asyncio.run(world.reconcile())
    assert budget(world) == 0
    world.clock.now_ms += 31 * 60 * 1000
    asyncio.run(world.reconcile())
    assert budget(world) == 1


def test_brokers_know_the_rack_of_their_node_when_they_start() -> None:
    """Issue 6: rack; and no pod may read nodes."""
    world = settled(rack={"topologyKey": "topology.kubernetes.io/zone"})
    assert world.racks == {0: "zone0", 1: "zone1", 2: "zone2"}
    rules = world.store.get(ROLE, NAMESPACE, f"{NAME}-broker")["rules"]
    assert {resource for rule in rules for resource in rule["resources"]} == {"leases"}
    assert world.restarted == []


def test_what_others_change_about_a_child_is_set_right() -> None:
    """Drift of children: server-side apply of the whole intent, only when it differs."""
    world = settled()
    patch = {"spec": {"publishNotReadyAddresses": False}}
    world.store.update(
        SERVICE,
        NAMESPACE,
        f"{NAME}-brokers",
        lambda old: {**old, "spec": old["spec"] | patch["spec"]},
    )
    asyncio.run(world.settle())
    service = world.store.get(SERVICE, NAMESPACE, f"{NAME}-brokers")
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert world.api.writes == [f"apply Service {NAME}-brokers"]


def test_a_deleted_broker_takes_its_children_along_and_leaves_the_volumes() -> None:
    """operator.md 3.2: data outlives the resource; no finalizer holds it back."""
    world = settled()
    assert "finalizers" not in world.broker["metadata"]
    world.store.delete(BROKER, NAMESPACE, NAME)
    assert world.store.objects[STATEFUL_SET] == {}
    assert len(world.store.objects[PERSISTENT_VOLUME_CLAIM]) == 3
    assert asyncio.run(world.reconcile()) is None


def test_a_setting_that_the_operator_decides_is_refused_with_its_name() -> None:
    """A Broker that cannot be meant is Stalled, and what runs goes on."""
    world = settled()
    world.change({"spec": {"config": {"node.id": 7}}})
    asyncio.run(world.settle())
    assert "node.id" in world.condition("Stalled")["message"]
    assert world.ready_ids() == {0, 1, 2}


def test_brokers_that_somebody_else_runs_are_only_looked_at() -> None:
    """A Broker may stand for a cluster outside: topics and groups refer to it."""
    world = BrokerWorld()
    world.annotate("bootstrap-servers", "kafka.example.com:9092")
    world.is_reachable = False
    asyncio.run(world.settle())
    assert world.condition("Ready")["reason"] == "Unreachable"
    assert world.store.objects[STATEFUL_SET] == {}
    assert set(world.api.writes) == {f"status Broker {NAME}"}


def config_file(world: BrokerWorld) -> str:
    return str(
        world.store.get(CONFIG_MAP, NAMESPACE, f"{NAME}-config")["data"]["broker.properties"]
    )


def images(world: BrokerWorld) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in world.pods().values()}


def budget(world: BrokerWorld) -> int:
    found = world.store.get(POD_DISRUPTION_BUDGET, NAMESPACE, NAME)["spec"]["maxUnavailable"]
    return int(found)


@pytest.mark.parametrize("interrupted_after", [None, 1, 2, 3, 4, 6, 8])
def test_three_brokers_become_one_and_three_again_and_the_metadata_log_goes_on(
    interrupted_after: int | None,
) -> None:
    """Row 1 of the findings: two pods went at once with the majority, and nobody led any more."""
    world = settled()
    world.partitions.clear()
    world.add_topic("kept", [0], in_sync_min=1)
    assert world.members == {0, 1, 2}
    world.change({"spec": {"replicas": 1}})
    if interrupted_after is not None:
        asyncio.run(world.walk_until_killed(interrupted_after, is_done_first=True))
    asyncio.run(world.settle())
    assert (world.members, world.registered, world.controller) == ({0}, {0}, 0)
    assert world.ready_ids() == {0}
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert (world.members, world.leaving) == ({0, 1, 2}, set())
    assert world.condition("Ready")["status"] == "True"


def test_a_scale_in_that_is_taken_back_lets_the_broker_stay_a_member() -> None:
    """Else it would be kept out of the metadata log for ever."""
    world = settled()
    world.partitions.clear()
    world.change({"spec": {"replicas": 2}})
    asyncio.run(world.reconcile())
    assert world.leaving == {2}
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert (world.members, world.leaving) == ({0, 1, 2}, set())
    assert world.restarted == []


def test_no_broker_is_taken_away_while_another_one_is_down() -> None:
    """Row 2 of the findings: of three members one was left, and nothing could be decided."""
    world = settled()
    world.partitions.clear()
    world.is_available = False
    world.hold_down(1)
    world.change({"spec": {"replicas": 2}})
    for _ in range(20):
        asyncio.run(world.reconcile())
        world.tick()
    assert world.ready_ids() == {0, 2}
    assert world.status["plan"]["waitingOn"].startswith("broker 1: ")
    world.held_down.clear()
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1}


def test_a_cluster_without_a_controller_or_an_answer_is_not_ready() -> None:
    """Row 6 of the findings: Flux and Argo CD went on without a control plane."""
    world = settled()
    world.members = {7, 8, 9}  # nobody has a majority of them
    world.is_available = False
    world.tick()
    asyncio.run(world.reconcile())
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoController")
    assert world.condition("Reconciling")["status"] == "True"
    world.is_reachable = False
    asyncio.run(world.reconcile())
    assert world.condition("Ready")["reason"] == "BrokersUnreachable"
    world.is_reachable, world.members = True, {0, 1, 2}
    asyncio.run(world.settle())
    assert world.condition("Ready")["status"] == "True"


def test_files_that_older_pods_mount_stay_when_their_brokers_have_gone() -> None:
    """Row 4 of the findings: after a scale-in no pod started again when its node was rebooted."""
    world = settled(4, rack={"topologyKey": "topology.kubernetes.io/zone"})
    world.partitions.clear()
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2}
    mounted = {
        item["key"]
        for pod in world.pods().values()
        for volume in pod["spec"]["volumes"]
        for item in volume.get("configMap", {}).get("items", ())
    }
    assert "broker-3.properties" in mounted
    files = world.store.get(CONFIG_MAP, NAMESPACE, f"{NAME}-config")["data"]
    assert mounted <= files.keys()
    world.annotate("restart", "now")
    asyncio.run(world.settle())
    files = world.store.get(CONFIG_MAP, NAMESPACE, f"{NAME}-config")["data"]
    assert "broker-3.properties" not in files


def test_one_broker_is_restarted_when_its_pod_says_so() -> None:
    """As users of Strimzi expect: an annotation of the pod, gone with it."""
    world = settled()
    mark = {"metadata": {"annotations": {"barnabas.dev/restart": "now"}}}
    world.store.update(POD, NAMESPACE, f"{NAME}-1", lambda old: merge_patched(old, mark))
    asyncio.run(world.settle())
    assert world.restarted == [1]
    told = {one["id"]: one.get("lastRestartReason") for one in world.status["brokers"]}
    assert told[1] == "restart asked for on its pod (now)"


def test_labels_and_annotations_that_are_declared_later_reach_running_pods() -> None:
    """Row 11 of the findings: nobody is restarted for them, and none is left without."""
    world = settled()
    template = {"labels": {"team": "a"}, "annotations": {"scrape": "yes"}}
    world.change({"spec": {"podTemplate": template}})
    asyncio.run(world.settle())
    for pod in world.pods().values():
        assert pod["metadata"]["labels"]["team"] == "a"
        assert pod["metadata"]["annotations"]["scrape"] == "yes"
    assert world.restarted == []


def test_a_secret_that_a_webhook_puts_on_pods_is_no_reason_to_restart() -> None:
    """It was one for ever, for the next pod had it as well."""
    world = settled()
    template = {"spec": {"podTemplate": {"imagePullSecrets": [{"name": "mine"}]}}}
    world.change(template)
    asyncio.run(world.settle())
    world.restarted.clear()
    for pod in world.pods().values():
        pod["spec"]["imagePullSecrets"].append({"name": "injected"})
    asyncio.run(world.settle())
    assert world.restarted == []


def test_secrets_for_pulling_images_reach_pods_by_a_restart() -> None:
    """Row 11 of the findings: not even a pod got them that could not start for lack of them."""
    world = settled()
    world.change({"spec": {"podTemplate": {"imagePullSecrets": [{"name": "registry"}]}}})
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]
    for pod in world.pods().values():
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert world.condition("Ready")["status"] == "True"


def test_the_domain_of_the_cluster_is_in_the_names_that_clients_are_told() -> None:
    """With another one than cluster.local no advertised name resolved."""
    world = BrokerWorld(3)
    world.start_operator(cluster_domain="example.internal")
    asyncio.run(world.settle())
    (command,) = {tuple(pod["spec"]["containers"][0]["command"]) for pod in world.pods().values()}
    assert ".svc.example.internal:9092" in command[-1]


def test_defaults_that_follow_the_size_hold_on_every_broker_after_scaling() -> None:
    """Row 3 of the findings: after 1 to 3 new topics still had one replica, and nobody said so."""
    world = settled(1)
    assert world.factors == {0: "1"}
    world.change({"spec": {"replicas": 3}})
    asyncio.run(world.settle())
    assert world.factors == {0: "3", 1: "3", 2: "3"}
    assert world.restarted == [0]
    reason = world.status["brokers"][0]["lastRestartReason"]
    assert reason == "default.replication.factor is 1, of 3 brokers it is 3"
    world.restarted.clear()
    world.change({"spec": {"replicas": 4}})
    asyncio.run(world.settle())
    assert world.restarted == []
    world.change({"spec": {"replicas": 1}})
    asyncio.run(world.settle())
    assert world.factors[0] == "1"


def test_ids_in_maintenance_that_mean_nobody_are_told_and_hold_nothing_up() -> None:
    """By reading: they did nothing and nobody said so; a scale-in may leave one behind."""

    async def run() -> None:
        world = BrokerWorld(replicas=4, maintenance={"decommission": [7]})
        await world.settle()
        assert "not: 7" in world.condition("UnknownBrokers")["message"]
        world.change({"spec": {"replicas": 3, "maintenance": {"decommission": [3]}}})
        await world.settle()
        assert world.ready_ids() == {0, 1, 2}
        assert "not: 3" in world.condition("UnknownBrokers")["message"]
        assert world.condition("Ready")["status"] == "True"
        world.change({"spec": {"maintenance": None}})
        await world.settle()
        assert world.condition("UnknownBrokers") == {}

    asyncio.run(run())
