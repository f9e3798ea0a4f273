"""What is told of replicas to whoever watches over the cluster."""

from __future__ import annotations

from barnabas_broker.replication.replication_metrics import leader_samples
from tests.support.replica_nodes import Links, ReplicaNode, led_by, topic_records
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
