"""What is told of replicas to whoever watches over the cluster."""

from __future__ import annotations

from barnabas_broker.replication.replication_metrics import (
    leader_samples,
    partition_samples,
    replica_samples,
)
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.log_fixtures import small_config
from tests.broker.replication.led_partition import Leader, lead
from tests.support.replica_nodes import TP, Links, ReplicaNode, led_by, topic_records
from tests.support.virtual_loop import run_virtual


def test_partitions_that_lack_replicas_are_counted_where_they_are_led() -> None:
    """MET-1: under-replicated, and what stands at or below `min.insync.replicas`."""

    async def test() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn(
            [
                *topic_records(),
                led_by(0, 0, index=0, isr=(0, 1)),
                led_by(0, 0, index=1, isr=(0,)),
                led_by(1, 0, index=2, isr=(1,)),
                led_by(0, 0, index=3, replicas=(0,)),
            ]
        )
        samples = {sample.name: sample.value for sample in leader_samples(node.replicas)}
        assert samples["barnabas_under_replicated_partitions"] == 1
        assert samples["barnabas_under_min_isr_partitions"] == 0
        assert samples["barnabas_at_min_isr_partitions"] == 1
        assert samples["barnabas_replication_bytes_out_total"] == 0
        await node.stop()

    run_virtual(test())


def refused_batches(leader: Leader) -> dict[str, object]:
    return {
        sample.labels["reason"]: sample.value
        for sample in replica_samples(leader.node.replicas)
        if sample.name == "barnabas_produce_refused_batches_total" and sample.value
    }


def test_refused_batches_are_counted_by_what_is_wrong_with_them() -> None:
    """MET-4: in the log's check and after it; neither what is appended nor a lost leader is."""

    def produce(leader: Leader, batch: bytes | bytearray) -> None:
        leader.node.replicas.leader_append.produce(
            [(TP, bytes(16), memoryview(bytearray(batch)))],
            acks=1,
            timeout_ms=1_000,
            now_ms=leader.node.clock.wall_ms(),
            done=lambda results: None,
        )
        leader.node.turn.finish()

    def numbered(sequence: int) -> bytes:
        record = Record(0, 1_700_000_000_000, None, b"v")
        return encode_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence)

    async def scenario(leader: Leader) -> None:
        damaged = bytearray(numbered(0))
        damaged[-1] ^= 1
        produce(leader, damaged)
        produce(leader, damaged)
        produce(leader, numbered(0))
        assert refused_batches(leader) == {"crc": 2}
        produce(leader, numbered(2))
        produce(leader, b"")
        assert refused_batches(leader) == {"crc": 2, "sequence": 1, "format": 1}
        await leader.state(0, 1, 2, leader=1, leader_epoch=1)
        produce(leader, numbered(1))
        assert refused_batches(leader) == {"crc": 2, "sequence": 1, "format": 1}

    lead(scenario)


def test_segments_of_a_partition_are_counted() -> None:
    """MET-3: a log that is cut into too many shows before its files run out."""

    async def scenario(leader: Leader) -> None:
        def segments() -> list[object]:
            return [
                sample.value
                for sample in partition_samples(leader.node.replicas)
                if sample.name == "barnabas_partition_segments"
            ]

        assert segments() == [1]
        leader.partition.log.update_config(small_config(segment_bytes=100))
        for _ in range(3):
            leader.produce(1)
        assert segments() == [3]

    lead(scenario)
