"""A leader whose replica is taken away: who waits is answered at once, nothing is acknowledged."""

from __future__ import annotations

import pytest

from barnabas_broker.metadata.records import MetadataRecord, RemoveTopicRecord
from barnabas_protocol.errors import ErrorCode
from tests.broker.replication.led_partition import Leader, lead
from tests.support.replica_nodes import TOPIC_ID, led_by

MOVED = led_by(1, 1, isr=(1, 2), replicas=(1, 2), partition_epoch=9)
DELETED = RemoveTopicRecord(TOPIC_ID)


@pytest.mark.parametrize("record", [MOVED, DELETED], ids=["moved away", "deleted"])
def test_a_leader_without_its_replica_answers_who_waits(record: MetadataRecord) -> None:
    """LEAD-10, LEAD-11: a producer that had to wait would go on with what comes after.

    Five batches later the new leader does not know that it has these, and they would be there
    twice.
    """

    async def test(leader: Leader) -> None:
        partition = leader.partition
        waiting = leader.send(timeout_ms=30_000)
        assert waiting == []
        await leader.node.learn([record])
        (result,) = waiting
        assert result.error is not None
        assert result.error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not partition.is_leader

    lead(test)


def test_a_leader_without_its_replica_acknowledges_nothing_for_its_old_followers() -> None:
    """REP-1: their fetches may still be on the way when the metadata has come."""

    async def test(leader: Leader) -> None:
        partition = leader.partition
        leader.produce(3)
        await leader.node.learn([MOVED])
        partition.advance()
        assert partition.log.high_watermark == 0

    lead(test)
