"""Which changes of the timeline a viewer is told of (CON-141)."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from barnabas_console.api.visible_names import visible_changes
from barnabas_console.history.timeline import ClusterChange
from barnabas_console.viewer import Viewer

SAMPLER = "User:console"
GROUPS = {"visible groups": {"mine": None}}
TOPICS = frozenset({"orders"})


class ListedViewer:
    """A principal whose lists are `GROUPS` and `TOPICS`."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.admin = SimpleNamespace()
        self.cluster = SimpleNamespace(topic_names=self._topic_names)

    async def _topic_names(self) -> frozenset[str]:
        return TOPICS

    def is_surely(self, principal: str) -> bool:
        return self.principal == principal

    async def shared(
        self, key: str, make: Callable[[], Coroutine[Any, Any, Any]], *, ttl_ms: int = 0
    ) -> Any:
        return GROUPS[key]


def change(kind: str = "act", **about: Any) -> ClusterChange:
    return ClusterChange(kind=kind, subject="s", words="w", **about)


def test_acts_and_settings_are_told_to_who_may_know_of_them() -> None:
    """An ACL that somebody made is nobody else's business; neither are values of settings."""
    acl = change(principal="User:alice")
    orders = change(topics=("orders",), principal="User:alice")
    other = change(topics=("secret",), principal="User:alice")
    setting = change("setting", topics=("orders",))
    event = change("kubernetes")
    broker = change("broker")

    async def run() -> None:
        for principal, told in (
            ("User:alice", [acl, orders, other, broker]),
            ("User:bob", [orders, broker]),
            (SAMPLER, [acl, orders, other, setting, event, broker]),
        ):
            viewer = cast("Viewer", ListedViewer(principal))
            is_visible = await visible_changes(viewer, SAMPLER)
            every = [acl, orders, other, setting, event, broker]
            assert [one for one in every if is_visible(one)] == told

    asyncio.run(run())
