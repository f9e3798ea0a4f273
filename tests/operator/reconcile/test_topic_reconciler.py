"""Passes over the Topics of several clusters at the same time."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas_client.env import SystemClock
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.kubernetes.api import InvalidError, Object
from barnabas_operator.kubernetes.kinds import NAMESPACE, TOPIC
from barnabas_operator.reconcile.topic_reconciler import TopicReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache
from tests.support.store_api import StoreApi


class OneBadNamespace(StoreApi):
    """Refuses a status in namespace `bad`, and answers the other one when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.has_refused = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def patch_status(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        if manifest["metadata"]["namespace"] == "bad":
            if manifest["metadata"]["name"] == "refused":
                self.has_refused.set()
                raise InvalidError("refused", code=422)
            await self.may_answer.wait()
        return await super().patch_status(manifest, status)


def test_what_one_cluster_fails_by_fails_no_other_one() -> None:
    """They had one place for failures together: the first pass to end raised those of others."""

    async def run() -> None:
        api = OneBadNamespace()
        for namespace, names in {"bad": ("refused", "slow"), "good": ("fine",)}.items():
            api.store.create(NAMESPACE, "", {"metadata": {"name": namespace}})
            for name in names:
                api.store.create(TOPIC, namespace, {"metadata": {"name": name}, "spec": {}})
        admins = AdminPool(api, SystemClock())
        cache = WatchCache(api, asyncio.get_running_loop().time)
        reconciler = TopicReconciler(api, admins, OperatorSettings(), SystemClock(), cache)
        bad = asyncio.create_task(reconciler.reconcile(key("bad")))
        await api.has_refused.wait()
        await reconciler.reconcile(key("good"))
        api.may_answer.set()
        with pytest.raises(InvalidError):
            await bad

    asyncio.run(run())


def key(namespace: str) -> Key:
    """The Topics of a namespace that has no Broker."""
    return Key(kind=KeyKind.TOPICS, namespace=namespace, name="")
