"""What passes find without asking: the newest of each object, whichever way it came."""

import asyncio
from typing import Any

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.kinds import BROKER, POD, TOPIC, Kind
from barnabas_operator.work.watch_cache import WatchCache
from tests.support.store_api import StoreApi

PLACE = ("default", "demo")


class Lists(StoreApi):
    """An API server that counts its lists and may be slow to answer one."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0
        self.meanwhile: Any = None

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Object]:
        self.lists += 1
        found = await super().list(kind, namespace=namespace)
        await asyncio.sleep(0)
        if self.meanwhile is not None:
            self.meanwhile()
        return found

    def put(self, name: str, broker: str = "demo") -> Object:
        spec = {"brokerRef": {"name": broker}} if broker else {}
        return self.store.create(TOPIC, "default", {"metadata": {"name": name}, "spec": spec})


def manifest(version: str, uid: str = "u", broker: str = "demo", **metadata: Any) -> Object:
    return {
        "apiVersion": TOPIC.api_version,
        "kind": TOPIC.kind,
        "metadata": {
            "namespace": "default",
            "name": "orders",
            "uid": uid,
            "resourceVersion": version,
            **metadata,
        },
        "spec": {"brokerRef": {"name": broker}} if broker else {},
    }


def cache(api: Lists | None = None) -> WatchCache:
    return WatchCache(api or Lists(), lambda: 0.0)


def versions(found: WatchCache, place: tuple[str, str] = PLACE) -> list[str]:
    there = found.of_broker(TOPIC, place, [PLACE])
    return [one["metadata"]["resourceVersion"] for one in there]


def test_an_event_that_is_older_than_what_was_written_changes_nothing() -> None:
    """Otherwise the pass after a write would see what was there before it."""
    found = cache()
    found.on_event(TOPIC, manifest("9"), is_deleted=False)
    found.wrote(manifest("11"))
    found.on_event(TOPIC, manifest("10"), is_deleted=False)
    assert versions(found) == ["11"]
    found.on_event(TOPIC, manifest("12"), is_deleted=False)
    assert versions(found) == ["12"]


def test_what_has_gone_is_not_brought_back_by_an_answer_that_was_under_way() -> None:
    """A Topic that is there again only here would have its topic made a second time."""
    found = cache()
    found.on_event(TOPIC, manifest("9"), is_deleted=False)
    found.on_event(TOPIC, manifest("12"), is_deleted=True)
    found.wrote(manifest("11"))
    assert versions(found) == []
    found.on_event(TOPIC, manifest("13", uid="another"), is_deleted=False)
    assert versions(found) == ["13"]


def test_the_answer_to_the_removal_of_the_last_finalizer_is_an_end() -> None:
    found = cache()
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    found.on_event(TOPIC, manifest("9", finalizers=["f"], **going), is_deleted=False)
    found.wrote(manifest("10", **going))
    assert versions(found) == []


def test_a_list_repairs_what_watching_has_missed_and_keeps_what_came_meanwhile() -> None:
    """Kopf tells nothing of what was deleted while a watch had to begin anew."""

    async def run() -> None:
        api = Lists()
        found = cache(api)
        missed = api.put("missed")
        found.on_event(TOPIC, manifest("1", uid="ghost"), is_deleted=False)
        new = manifest("5000", uid="new")
        api.meanwhile = lambda: found.on_event(TOPIC, new, is_deleted=False)
        await found.relist(TOPIC)
        there = found.of_broker(TOPIC, PLACE, [PLACE])
        assert {one["metadata"]["uid"] for one in there} == {missed["metadata"]["uid"], "new"}

    asyncio.run(run())


def test_those_who_wait_for_a_list_share_the_next_one() -> None:
    async def run() -> None:
        api = Lists()
        found = cache(api)
        await asyncio.gather(*(found.relist(TOPIC) for _ in range(50)))
        # The first one has begun when the others ask, and may not show what they have to know.
        assert api.lists == 2
        await found.relist(TOPIC)
        assert api.lists == 3

    asyncio.run(run())


def test_lists_are_made_now_and_then_only() -> None:
    async def run() -> None:
        api, now = Lists(), [0.0]
        found = WatchCache(api, lambda: now[0], list_seconds=60)
        for now[0] in (0.0, 30.0, 59.0, 60.0, 61.0):
            await found.freshen(TOPIC, BROKER)
        assert api.lists == 2 * 2

    asyncio.run(run())


def test_what_names_no_broker_belongs_to_the_only_one_of_its_namespace() -> None:
    found = cache()
    found.on_event(TOPIC, manifest("1", broker=""), is_deleted=False)
    assert versions(found) == ["1"]
    two = [PLACE, ("default", "other")]
    assert found.of_broker(TOPIC, PLACE, two) == []
    assert len(found.of_broker(TOPIC, ("default", ""), two)) == 1
    found.on_event(TOPIC, manifest("2", broker="other"), is_deleted=False)
    assert found.of_broker(TOPIC, ("default", ""), two) == []
    assert len(found.of_broker(TOPIC, ("default", "other"), two)) == 1


def test_changes_of_what_belongs_to_a_broker_are_counted() -> None:
    found = cache()
    before = found.changes_of(PLACE)
    pod = {"metadata": {"namespace": "default", "labels": {"barnabas.dev/broker": "demo"}}}
    found.on_event(POD, pod, is_deleted=True)
    assert found.changes_of(PLACE) == before + 1
    found.on_event(TOPIC, manifest("1"), is_deleted=False)
    assert found.changes_of(PLACE) == before + 1


def test_who_set_which_field_is_not_kept() -> None:
    found = cache()
    found.on_event(TOPIC, manifest("1", managedFields=[{"manager": "kubectl"}]), is_deleted=False)
    (kept,) = found.of_broker(TOPIC, PLACE, [PLACE])
    assert "managedFields" not in kept["metadata"]
