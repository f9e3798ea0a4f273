"""Events become keys: which cluster's work a change wakes."""

from typing import Any

import pytest

from barnabas_client.env import SystemClock
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.handlers import EventHandlers, kopf_settings
from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONSUMER_GROUP,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STATEFUL_SET,
    TOPIC,
    USER,
    Kind,
)
from barnabas_operator.metrics import OperatorMetrics
from barnabas_operator.work.freshness import WatchFreshness
from barnabas_operator.work.watch_cache import WatchCache
from tests.support.store_api import StoreApi


class World:
    """EventHandlers with the keys that they have put in since the last look."""

    def __init__(self) -> None:
        self.added: list[str] = []
        self.handlers = EventHandlers(
            lambda key: self.added.append(f"{key.kind} {key.namespace}/{key.name}"),
            admins=AdminPool(StoreApi(), SystemClock()),
            cache=WatchCache(StoreApi(), lambda: 0.0),
            freshness=WatchFreshness([TOPIC], lambda: 0.0),
            metrics=OperatorMetrics(),
        )

    def hear(self, kind: Kind, manifest: dict[str, Any], *, is_deleted: bool = False) -> set[str]:
        self.added.clear()
        self.handlers.on_event(kind, manifest, is_deleted=is_deleted)
        return set(self.added)


def manifest(name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name, **metadata}, "spec": spec or {}}


def test_a_topic_wakes_the_topics_of_its_cluster() -> None:
    world = World()
    assert world.hear(TOPIC, manifest("orders")) == {"topics ns/"}
    world.hear(BROKER, manifest("demo"))
    assert world.hear(TOPIC, manifest("orders")) == {"topics ns/demo"}
    named = manifest("orders", {"brokerRef": {"name": "other", "namespace": "far"}})
    assert world.hear(TOPIC, named) == {"topics far/other"}
    assert world.hear(CONSUMER_GROUP, manifest("billing")) == {"groups ns/demo"}
    assert world.hear(USER, manifest("alice")) == {"users ns/demo"}


def test_a_new_or_gone_broker_wakes_all_that_may_mean_it() -> None:
    """Resources without brokerRef mean the only Broker, which may be another one now."""
    world = World()
    kinds = ("topics", "groups", "users")
    everything = {"broker ns/demo"} | {
        f"{kind} ns/{name}" for kind in kinds for name in ("demo", "")
    }
    assert world.hear(BROKER, manifest("demo")) == everything
    assert world.hear(BROKER, manifest("demo"), is_deleted=True) == everything


def test_a_broker_whose_status_changes_does_not_wake_its_topics() -> None:
    """It changes all the time during a roll; but that brokers have become ready they wait for."""
    world = World()
    world.hear(BROKER, manifest("demo"))
    changed = {**manifest("demo"), "status": {"plan": "rolling"}}
    assert world.hear(BROKER, changed) == {"broker ns/demo"}
    ready = {**changed, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert world.hear(BROKER, ready) == {
        "broker ns/demo",
        "topics ns/demo",
        "groups ns/demo",
        "users ns/demo",
    }


@pytest.mark.parametrize("kind", [POD, STATEFUL_SET, PERSISTENT_VOLUME_CLAIM])
def test_what_belongs_to_a_broker_wakes_it(kind: Kind) -> None:
    """operator.md 7, pitfall 14: kopf has no wake-up from child to parent."""
    world = World()
    child = manifest("demo-0", labels={"barnabas.dev/broker": "demo"})
    assert world.hear(kind, child, is_deleted=True) == {"broker ns/demo"}
    assert world.hear(kind, manifest("stranger")) == set()


def test_kopf_leaves_no_marks_and_notices_dead_streams() -> None:
    """operator.md 7: no peering, no events from logs, everything under our own prefix."""
    settings = kopf_settings()
    assert settings.peering.standalone
    assert not settings.posting.enabled
    assert settings.persistence.finalizer.startswith("barnabas.dev/")
    assert settings.watching.inactivity_timeout == 70
    assert set(settings.watching.label_selectors.values()) == {"barnabas.dev/broker"}
