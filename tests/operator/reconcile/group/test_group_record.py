"""What is kept in a status comes back as it was, and stays small."""

import json

from barnabas_operator.reconcile.group.group_record import (
    offsets_text,
    operations_fields,
    read_offsets,
    read_operations,
)
from barnabas_operator.reconcile.group.group_state import (
    Operation,
    Operations,
    Phase,
    Snapshot,
)
from barnabas_operator.reconcile.group.reset_targets import PARTITIONS_MAX
from barnabas_protocol.ids import TopicPartition

OFFSETS = {
    TopicPartition("a:b", 0): 5,
    TopicPartition("a:b", 12): None,
    TopicPartition("c", 1): 0,
}


def test_offsets_come_back_from_their_text() -> None:
    text = offsets_text(OFFSETS)
    assert text == {"a:b": "0:5,12:none", "c": "1:0"}
    assert read_offsets(text) == OFFSETS


def test_operations_come_back_from_a_status() -> None:
    operation = Operation(
        id="r1",
        request="all topics to earliest; when active: Wait",
        phase=Phase.RUNNING,
        message="not authorized",
        before=OFFSETS,
        after=dict.fromkeys(OFFSETS, 7),
    )
    operations = Operations(
        reset=operation,
        snapshot=Snapshot(id="r0", offsets=OFFSETS),
        undo=Operation(id="r0", request="undo r0", phase=Phase.REFUSED, message="live"),
        deletion=Operation(id="d", request="delete", phase=Phase.DONE),
        completed=("reset/r0", "delete/d"),
    )
    assert read_operations(json.loads(json.dumps(operations_fields(operations)))) == operations
    assert read_operations(None) == Operations()


def test_the_largest_reset_fits_into_an_object() -> None:
    """The API server takes 1.5 MiB; a name may have 249 characters, an offset 19 digits."""
    topic_partitions = [TopicPartition("t" * 249, number) for number in range(PARTITIONS_MAX)]
    offsets = dict.fromkeys(topic_partitions, 2**63 - 1)
    operation = Operation(id="r", request="", phase=Phase.RUNNING, before=offsets, after=offsets)
    kept = operations_fields(
        Operations(reset=operation, snapshot=Snapshot(id="r", offsets=offsets), undo=operation)
    )
    assert len(json.dumps(kept)) < 1 << 20
    assert len(kept["reset"]["partitions"]) == 100
    assert kept["reset"]["partitionCount"] == PARTITIONS_MAX
