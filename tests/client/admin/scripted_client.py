"""The network seam of the admin client with a script in place of brokers.

`answers` maps an API to functions that take (node id, request) and give a response or raise; the
last function of a list answers all further requests. What was asked is kept in `asked`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from barnabas_client.cluster.metadata import ClusterMetadata, Node
from barnabas_client.env import Environment
from barnabas_client.errors import UnsupportedError
from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.schema import Message

Answer = Callable[[int, Any], Any]


class SteppingClock:
    """A clock that moves a little with every reading, so that waiting ends without time passing."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def monotonic_ms(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


@dataclass
class ScriptedSettings:
    default_api_timeout_ms: int = 1000
    request_timeout_ms: int = 500


class ScriptedClient:
    """What `AdminRouting` asks of `network.client.Client`."""

    def __init__(self, node_ids: Sequence[int] = (1, 2, 3), controller_id: int = 1) -> None:
        self.settings = ScriptedSettings()
        self.environment = Environment(clock=SteppingClock())
        self.cluster = ClusterMetadata(
            version=1,
            controller_id=controller_id,
            nodes=MappingProxyType(
                {one: Node(node_id=one, host="127.0.0.1", port=9000 + one) for one in node_ids}
            ),
        )
        self.answers: dict[ApiKey, list[Answer]] = {}
        self.asked: dict[ApiKey, list[tuple[int, Any, int]]] = defaultdict(list)
        self.versions: dict[ApiKey, int] = {}
        self.next_controllers: list[int] = []
        self.refreshes = 0

    def script(self, api: ApiKey, *answers: Answer) -> None:
        """Answer requests of an API one after the other, the last one again and again."""
        self.answers[api] = list(answers)

    def nodes_asked(self, api: ApiKey) -> list[int]:
        return [node_id for node_id, _, _ in self.asked[api]]

    async def request(
        self, node_id: int, request: Message, *, version: int, timeout_ms: int
    ) -> Any:
        api = api_of(request)
        self.asked[api].append((node_id, request, version))
        answers = self.answers[api]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return answer(node_id, request)

    async def request_any(self, request: Message, *, timeout_ms: int) -> Any:
        version = self.versions.get(api_of(request), KNOWN[api_of(request)][1])
        return await self.request(0, request, version=version, timeout_ms=timeout_ms)

    async def version(
        self, node_id: int, api: ApiKey, *, maximum: int | None = None, minimum: int = 0
    ) -> int:
        newest = self.versions.get(api, KNOWN[api][1])
        if newest < minimum:
            raise UnsupportedError(f"broker {node_id} serves {api.name} up to {newest}")
        return newest if maximum is None else min(newest, maximum)

    async def ready(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        return

    async def refresh(self, *, timeout_ms: int | None = None) -> ClusterMetadata:
        self.refreshes += 1
        if self.next_controllers:
            self.cluster = replace(self.cluster, controller_id=self.next_controllers.pop(0))
        return self.cluster

    def request_refresh(self) -> None:
        self.refreshes += 1

    def is_ready(self, node_id: int) -> bool:
        return True

    def in_flight_count(self, node_id: int) -> int:
        return 0

    def backoff_ms(self, attempt: int) -> int:
        return 0


def api_of(request: Message) -> ApiKey:
    """The API of a request object, by the name of its class."""
    wanted = type(request).__name__.removesuffix("Request")
    return next(api for api in ApiKey if api.name.replace("_", "").lower() == wanted.lower())
