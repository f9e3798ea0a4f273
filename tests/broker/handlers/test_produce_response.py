"""The hand-written Produce response against the generated writer."""

import random

import pytest

from barnabas_broker.handlers.produce import encode_produce_response
from barnabas_broker.log.append_info import AppendInfo
from barnabas_broker.log.errors import InvalidRecordsError, RefusalReason
from barnabas_broker.replication.leader.delayed_produce import ProduceResult
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import produce


def some_result(rng: random.Random, topic: str, index: int) -> ProduceResult:
    error: KafkaError | None = None
    info: AppendInfo | None = None
    match rng.randrange(4):
        case 0:
            error = KafkaError(rng.choice(list(ErrorCode)), rng.choice([None, "", "why" * 60]))
        case 1:
            error = InvalidRecordsError(
                ErrorCode.INVALID_RECORD,
                [(n, f"message {n}") for n in range(rng.randrange(1, 200))],
                RefusalReason.NO_KEY,
            )
        case _:
            info = AppendInfo(
                rng.randrange(2**40),
                0,
                rng.randrange(-1, 2**40),
                rng.randrange(2**30),
                False,
                0,
                0,
                0,
            )
    return ProduceResult(TopicPartition(topic, index), None, info, error)


def as_message(result: ProduceResult) -> produce.PartitionProduceResponse:
    index = result.topic_partition.partition
    if result.info is not None:
        return produce.PartitionProduceResponse(
            index=index,
            base_offset=result.info.first_offset,
            log_append_time_ms=result.info.log_append_time_ms,
            log_start_offset=result.info.log_start_offset,
            error_message=None,
        )
    assert result.error is not None
    return produce.PartitionProduceResponse(
        index=index,
        error_code=result.error.code,
        base_offset=-1,
        record_errors=[
            produce.BatchIndexAndErrorMessage(batch_index=n, batch_index_error_message=text)
            for n, text in getattr(result.error, "record_errors", ())
        ],
        error_message=result.error.message,
    )


@pytest.mark.parametrize("version", range(3, 14))
def test_hand_written_produce_response_equals_the_generated_one(version: int) -> None:
    """protocol.md 16: the hot path has its own writer; the generated one is its oracle."""
    for seed in range(50):
        rng = random.Random(seed)
        topics, messages, results = [], [], []
        for number in range(rng.randrange(4)):
            name, topic_id = f"topic-{number}" * rng.randrange(1, 30), rng.randbytes(16)
            mine = [some_result(rng, name, index) for index in range(rng.randrange(1, 140))]
            results += mine
            topics.append(
                produce.TopicProduceData(
                    name=name,
                    topic_id=topic_id,
                    partition_data=[produce.PartitionProduceData(index=0)] * len(mine),
                )
            )
            messages.append(
                produce.TopicProduceResponse(
                    name=name,
                    topic_id=topic_id,
                    partition_responses=[as_message(result) for result in mine],
                )
            )
        expected = codec.encode_response(
            produce.ProduceResponse(responses=messages), ApiKey.PRODUCE, version, 77
        )
        assert encode_produce_response(version, 77, topics, results) == expected, f"seed {seed}"
