"""The hand-written ShareFetch response against the generated writer."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_broker.handlers.current_leaders import Endpoint, LeaderIdAndEpoch
from barnabas_broker.handlers.share_fetch import encode_share_fetch_response
from barnabas_broker.handlers.share_requests import NO_LEADER
from barnabas_broker.share.acquisition import AcquiredRecords
from barnabas_broker.share.delayed_share_fetch import FetchedPartition
from barnabas_broker.share.share_session import SessionPartition
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages import share_fetch


def some_error(chance: random.Random) -> KafkaError | None:
    if chance.random() < 0.6:
        return None
    return KafkaError(chance.choice(list(ErrorCode)), chance.choice([None, "why" * 50]))


def some_results(chance: random.Random) -> list[FetchedPartition]:
    results = []
    for _ in range(chance.randrange(4)):
        topic_id = chance.randbytes(16)
        for index in range(chance.randrange(1, 5)):
            one = FetchedPartition(SessionPartition(topic_id, index), None, some_error(chance))
            if chance.random() < 0.7:
                one.buffers = [chance.randbytes(chance.randrange(1, 20_000)) for _ in range(3)]
                one.size_bytes = sum(map(len, one.buffers))
                one.acquired = [
                    AcquiredRecords(chance.randrange(2**40), chance.randrange(2**40), count)
                    for count in range(chance.randrange(200))
                ]
            results.append(one)
    return results


def expected(
    results: list[FetchedPartition], acknowledged: dict[SessionPartition, Any], leaders: Any
) -> share_fetch.ShareFetchResponse:
    topics: dict[bytes, share_fetch.ShareFetchableTopicResponse] = {}
    for one in results:
        topic_id, index = one.session_partition
        topic = topics.setdefault(
            topic_id, share_fetch.ShareFetchableTopicResponse(topic_id=topic_id)
        )
        error, refused = one.error, acknowledged.get(one.session_partition)
        leader = leaders.leader_of(one.session_partition)
        topic.partitions.append(
            share_fetch.PartitionData(
                partition_index=index,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
                acknowledge_error_code=0 if refused is None else refused.code,
                acknowledge_error_message=None if refused is None else refused.message,
                current_leader=share_fetch.LeaderIdAndEpoch(
                    leader_id=leader.node_id, leader_epoch=leader.leader_epoch
                ),
                records=b"".join(one.buffers),
                acquired_records=[
                    share_fetch.AcquiredRecords(
                        first_offset=first, last_offset=last, delivery_count=count
                    )
                    for first, last, count in one.acquired
                ],
            )
        )
    return share_fetch.ShareFetchResponse(
        throttle_time_ms=7,
        acquisition_lock_timeout_ms=30_000,
        responses=list(topics.values()),
        node_endpoints=[
            share_fetch.NodeEndpoint(
                node_id=one.node_id, host=one.host, port=one.port, rack=one.rack
            )
            for one in leaders.endpoints
        ],
    )


@pytest.mark.parametrize("version", [1, 2])
def test_hand_written_share_fetch_response_equals_the_generated_one(version: int) -> None:
    """SHR-13: what has its own writer has the generated one as its oracle."""
    for seed in range(30):
        chance = random.Random(seed)
        results = some_results(chance)
        acknowledged = {
            one.session_partition: some_error(chance) for one in results if chance.random() < 0.5
        }
        moved = {one.session_partition for one in results if chance.random() < 0.3}
        leaders: Any = SimpleNamespace(
            leader_of=lambda one, moved=moved: (
                LeaderIdAndEpoch(3, 9) if one in moved else NO_LEADER
            ),
            endpoints=[Endpoint(3, "host", 9092, chance.choice([None, "rack"]))] if moved else [],
        )
        parts = encode_share_fetch_response(5, 7, 30_000, results, acknowledged, leaders)
        message = expected(results, acknowledged, leaders)
        generated = codec.encode_response(message, ApiKey.SHARE_FETCH, version, 5)
        assert b"".join(map(bytes, parts)) == generated, f"seed {seed}"
