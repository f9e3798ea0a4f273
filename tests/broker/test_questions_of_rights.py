"""A request that names very many things has the loop go on while rights are asked for."""

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_broker.handlers.request_limits import elements_max
from barnabas_broker.handlers.rights import RULES
from barnabas_broker.handlers.table import HANDLERS, VERSIONS
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.security.authorizer import AccessQuestion
from barnabas_protocol import codec
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.in_process_broker import running_broker
from tests.support.many_names import ManyNames
from tests.support.memory_authorizer import Given, MemoryAuthorizer
from tests.support.raw_client import RawClient

QUESTIONS_MAX = 2 * SLICE
"""In one turn of the loop: each costs some microseconds, and the audit log as many."""
ELEMENTS_MAX = 6_000
NAMING = sorted(key for key in HANDLERS if RULES[key].asked and key not in INTERNAL)


class CountingAuthorizer(MemoryAuthorizer):
    """Counts what is asked for in each turn of the loop, and refuses or allows all of it."""

    def __init__(self, *, allows: bool) -> None:
        super().__init__()
        self.allows_all = allows
        self.turn = 0
        self.questions: dict[int, int] = {}

    async def run(self) -> None:
        """Count turns."""
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def is_allowed(self, question: AccessQuestion, *, is_filter: bool = False) -> bool:
        self.questions[self.turn] = self.questions.get(self.turn, 0) + 1
        return self.allows_all


def requests(key: ApiKey) -> list[bytes]:
    """Few elements that hold many each, and many elements that hold one or none."""
    version, most = VERSIONS[key][1], min(elements_max(key), ELEMENTS_MAX)
    frames = []
    for outer, inner in ((most, 0), (most // 2, 1), (most // (SLICE + 1), SLICE - 1)):
        request = ManyNames().request(key, version, max(outer, 1), inner)
        for name, value in _MORE.get(key, {}).items():
            setattr(request, name, value)
        frames.append(codec.encode_request(request, key, version, 1, "mallory"))
    return frames


_MORE = {
    ApiKey.CREATE_TOPICS: {"validate_only": True},
    ApiKey.CREATE_PARTITIONS: {"validate_only": True},
    ApiKey.ALTER_CONFIGS: {"validate_only": True},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"validate_only": True},
    ApiKey.METADATA: {
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    },
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {"cursor": None},
    ApiKey.DESCRIBE_GROUPS: {"include_authorized_operations": True},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"include_authorized_operations": True},
    ApiKey.SHARE_GROUP_DESCRIBE: {"include_authorized_operations": True},
    ApiKey.PRODUCE: {"acks": 1, "transactional_id": None},
}


@pytest.mark.parametrize("allows", [False, True], ids=["refused", "allowed"])
@pytest.mark.parametrize("key", NAMING, ids=lambda key: key.name.lower())
def test_few_rights_are_asked_for_in_one_turn(tmp_path: Path, key: ApiKey, allows: bool) -> None:
    """SEC-46: names are the client's to invent, and a request has room for thousands."""

    async def run() -> None:
        authorizer = CountingAuthorizer(allows=allows)
        async with running_broker(tmp_path, authorizer) as server:
            turns = asyncio.create_task(authorizer.run())
            for frame in requests(key):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(struct.pack(">i", len(frame)) + frame)
                # An answer, or the end of the connection where that is too much.
                await reader.read(4)
                writer.close()
                await writer.wait_closed()
            turns.cancel()
        assert max(authorizer.questions.values(), default=0) <= QUESTIONS_MAX

    asyncio.run(run())


class WeighingAuthorizer(MemoryAuthorizer):
    """Takes several steps over what nobody names, and allows it."""

    STEPS = 5

    def weighing(self, question: AccessQuestion) -> Iterator[None]:
        return iter((None,) * self.STEPS)


def test_who_weighs_in_steps_pauses_in_turn_with_all_others(tmp_path: Path) -> None:
    """SEC-42, SEC-46: a hundred connections that ask at once take one step in a turn together."""

    async def run() -> None:
        authorizer = WeighingAuthorizer(Given(AclOperation.WRITE, AclResourceType.TOPIC, "t"))
        async with (
            running_broker(tmp_path, authorizer) as server,
            await RawClient.connect(server.port) as client,
        ):
            before = server.heavy_work.pause_count
            request = InitProducerIdRequest(transactional_id=None)
            response = await client.call(ApiKey.INIT_PRODUCER_ID, 4, request)
            assert response.error_code == ErrorCode.NONE
            assert server.heavy_work.pause_count - before == authorizer.STEPS

    asyncio.run(run())
