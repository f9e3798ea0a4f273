"""TxnOffsetCommit: what a client is told that has come to the wrong broker."""

import asyncio
from types import SimpleNamespace

import pytest

from barnabas_broker.handlers import txn_offset_commit
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


def refuse(code):
    raise KafkaError(code)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
@pytest.mark.parametrize("is_here", [False, True])
def test_broker_that_does_not_lead_the_offsets_is_not_the_coordinator(found, told, is_here):
    """TXN-4: a producer looks for its coordinator again by 15 and 16; 6 would be its end."""
    partition = SimpleNamespace(check_leader=lambda: refuse(found))
    services = SimpleNamespace(
        authorizer=None,
        groups=SimpleNamespace(runtime=SimpleNamespace(partition_for=lambda group_id: 0)),
        replicas=SimpleNamespace(find=lambda _: partition if is_here else refuse(found)),
    )
    request = TxnOffsetCommitRequest(group_id="g", producer_id=7, producer_epoch=0)
    with pytest.raises(KafkaError) as caught:
        asyncio.run(txn_offset_commit.handle(services, SimpleNamespace(api_version=3), request))
    assert caught.value.code is told
