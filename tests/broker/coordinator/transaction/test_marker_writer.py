"""Markers at the leader: each partition for itself, whatever becomes of the others."""

import asyncio
from types import SimpleNamespace

from barnabas_broker.coordinator.transaction.marker_writer import MarkerWriter
from barnabas_broker.coordinator.transaction.verification import TransactionVerification
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.virtual_loop import VirtualClock, run_virtual


class StuckWriter:
    """Commits what is appended to any topic but "stuck", whose followers are away."""

    def __init__(self):
        self.appended = []

    def stage(self, topic_partition, batch):
        self.appended.append(topic_partition.topic)
        return topic_partition.topic

    async def outcomes(self, staged, wait_ms_max):
        if "stuck" not in staged:
            return [None] * len(staged)
        await asyncio.sleep(wait_ms_max / 1000)
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return [late if topic == "stuck" else None for topic in staged]


def test_marker_that_is_not_committed_does_not_hold_up_other_transactions():
    """TXN-6: the response would be late for all of them, and they would be sent again with it."""

    async def scenario():
        log = SimpleNamespace(producer_state=SimpleNamespace(producers={}))
        partition = SimpleNamespace(check_leader=lambda: None, log=log)
        writer = StuckWriter()
        markers = MarkerWriter(
            SimpleNamespace(find=lambda _: partition),
            writer,
            None,
            TransactionVerification(None, verifies=lambda: True, add_retry_ms=lambda: (20, 100)),
            VirtualClock(asyncio.get_running_loop()),
        )
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=number,
                    topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0])],
                )
                for number, name in enumerate(["stuck"] + ["other"] * 30)
            ]
        )
        async with asyncio.timeout(10):
            response = await markers.write(request)
        codes = [marker.topics[0].partitions[0].error_code for marker in response.markers]
        assert codes == [ErrorCode.REQUEST_TIMED_OUT] + [ErrorCode.NONE] * 30
        assert len(writer.appended) == 31

    run_virtual(scenario())
