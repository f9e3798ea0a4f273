"""The hand-written Fetch response against the generated writer."""

import random

import pytest

from barnabas_broker.handlers.fetch import encode_fetch_response
from barnabas_broker.replication.leader.delayed_fetch import PartitionData
from barnabas_broker.replication.leader.fetch_session import FetchPartition
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch


def some_results(rng: random.Random) -> list[PartitionData]:
    results = []
    for topic in range(rng.randrange(4)):
        name, topic_id = f"topic-{topic}" * rng.randrange(1, 30), rng.randbytes(16)
        for index in range(rng.randrange(1, 5)):
            data = PartitionData(
                FetchPartition(TopicPartition(name, index), topic_id, 0, 1000),
                rng.choice(list(ErrorCode)),
            )
            data.high_watermark = rng.randrange(-1, 2**40)
            data.last_stable_offset = rng.randrange(-1, 2**40)
            data.log_start_offset = rng.randrange(-1, 2**40)
            if rng.random() < 0.5:
                data.aborted = [(rng.randrange(2**40), 7) for _ in range(rng.randrange(200))]
            if rng.random() < 0.2:
                data.diverging = (rng.randrange(2**31), rng.randrange(2**40))
            if rng.random() < 0.7:
                data.buffers = [rng.randbytes(rng.randrange(1, 20_000)) for _ in range(3)]
                data.size_bytes = sum(map(len, data.buffers))
            results.append(data)
    return results


def as_message(
    version: int, error: int, session_id: int, results: list[PartitionData]
) -> fetch.FetchResponse:
    topics: dict[str, fetch.FetchableTopicResponse] = {}
    for data in results:
        name = data.request.topic_partition.topic
        topic = topics.setdefault(
            name, fetch.FetchableTopicResponse(topic=name, topic_id=data.request.topic_id)
        )
        topic.partitions.append(
            fetch.PartitionData(
                partition_index=data.request.topic_partition.partition,
                error_code=data.error,
                high_watermark=data.high_watermark,
                last_stable_offset=data.last_stable_offset,
                log_start_offset=data.log_start_offset,
                aborted_transactions=None
                if data.aborted is None
                else [
                    fetch.AbortedTransaction(producer_id=producer, first_offset=first)
                    for producer, first in data.aborted
                ],
                records=b"".join(data.buffers),
                diverging_epoch=fetch.EpochEndOffset()
                if data.diverging is None
                else fetch.EpochEndOffset(epoch=data.diverging[0], end_offset=data.diverging[1]),
            )
        )
    return fetch.FetchResponse(
        error_code=error, session_id=session_id, responses=list(topics.values())
    )


@pytest.mark.parametrize("version", range(4, 18))
def test_hand_written_fetch_response_equals_the_generated_one(version: int) -> None:
    """protocol.md 16: the hot path has its own writer; the generated one is its oracle."""
    for seed in range(30):
        rng = random.Random(seed)
        results = some_results(rng)
        error = rng.choice([0, 70, 71])
        session_id = rng.randrange(2**31)
        parts = encode_fetch_response(version, 77, error, session_id, results)
        expected = codec.encode_response(
            as_message(version, error, session_id, results), ApiKey.FETCH, version, 77
        )
        assert b"".join(bytes(part) for part in parts) == expected, f"seed {seed}"
