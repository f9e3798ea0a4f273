"""What a `__transaction_state` of a stopped broker says of open transactions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_broker.coordinator.transaction.records import (
    transaction_record,
    transaction_tombstone,
)
from barnabas_broker.coordinator.transaction.state import Transaction, TransactionState
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.import_directory import TransactionFate
from barnabas_broker.offline.transaction_decisions import TransactionDecisions
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record, encode_batch

PLACE = TopicPartition("orders", 0)


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    disk = RealDisk()
    yield disk
    disk.close()


def noted(
    state: TransactionState,
    *,
    producer_epoch: int = 3,
    client_version: int = 0,
    producer_id: int = 7,
) -> Transaction:
    return Transaction(
        transactional_id="app",
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({PLACE}),
        client_version=client_version,
    )


def write(
    folder: Path, partition: int, *segments: list[Transaction | str], tail: bytes = b""
) -> None:
    """The log of a partition of `__transaction_state`; a text is an id that is forgotten."""
    directory = folder / f"__transaction_state-{partition}"
    directory.mkdir()
    offset = 0
    for segment in segments:
        data = b""
        base_offset = offset
        for one in segment:
            record = (
                transaction_tombstone(one) if isinstance(one, str) else transaction_record(one, 1)
            )
            batch = encode_batch([Record(offset, 1, record.key, record.value)], base_offset=offset)
            data += bytes(batch)
            offset += 1
        (directory / f"{base_offset:020}.log").write_bytes(data + tail)


COMMIT, ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
ONGOING, DONE = TransactionState.ONGOING, TransactionState.COMPLETE_COMMIT
YES, NO, UNKNOWN = TransactionFate.COMMITTED, TransactionFate.ABORTED, TransactionFate.UNKNOWN


@pytest.mark.parametrize(
    ("state", "noted_epoch", "client_version", "written_epoch", "fate"),
    [
        (COMMIT, 3, 0, 3, YES),
        (COMMIT, 4, 2, 3, YES),
        (COMMIT, 4, 0, 3, UNKNOWN),
        (COMMIT, 3, 2, 3, UNKNOWN),
        (COMMIT, 5, 2, 3, UNKNOWN),
        (ABORT, 3, 0, 3, NO),
        (ABORT, 4, 0, 3, NO),
        (ABORT, 4, 2, 3, NO),
        (ABORT, 9, 0, 3, UNKNOWN),
        (ONGOING, 3, 0, 3, NO),
        (ONGOING, 3, 2, 3, NO),
        (ONGOING, 5, 2, 3, UNKNOWN),
        (DONE, 3, 0, 3, UNKNOWN),
    ],
)
def test_the_fate_of_a_transaction_is_what_its_coordinator_noted_of_its_epoch(
    disk: RealDisk,
    tmp_path: Path,
    state: TransactionState,
    noted_epoch: int,
    client_version: int,
    written_epoch: int,
    fate: TransactionFate,
) -> None:
    """TXN-7: from PrepareCommit on only markers are missing; version 2 raises the epoch by it."""
    one = noted(state, producer_epoch=noted_epoch, client_version=client_version)
    if state is DONE:
        one = Transaction(
            transactional_id="app", producer_id=7, producer_epoch=3, timeout_ms=1, state=DONE
        )
    write(tmp_path, 4, [noted(ONGOING, producer_id=5), one])
    decisions = TransactionDecisions(disk, str(tmp_path))
    assert decisions.fate(PLACE, 7, written_epoch) is fate
    assert decisions.fate(PLACE, 5, 3) is UNKNOWN, "the id has another producer id since"
    assert decisions.fate(TopicPartition("orders", 1), 7, written_epoch) is UNKNOWN
    assert decisions.fate(PLACE, 8, written_epoch) is UNKNOWN


def test_without_notes_nothing_is_known(disk: RealDisk, tmp_path: Path) -> None:
    assert TransactionDecisions(disk, str(tmp_path)).fate(PLACE, 7, 3) is UNKNOWN
    write(tmp_path, 0, [noted(COMMIT), "app"])
    assert TransactionDecisions(disk, str(tmp_path)).fate(PLACE, 7, 3) is UNKNOWN


def test_a_torn_end_is_left_out_and_damage_before_it_makes_all_unknown(
    disk: RealDisk, tmp_path: Path
) -> None:
    """What is behind the damage may say otherwise than what is before it."""
    write(tmp_path, 0, [noted(ONGOING), noted(COMMIT)], tail=bytes(100))
    assert TransactionDecisions(disk, str(tmp_path)).fate(PLACE, 7, 3) is YES
    torn = tmp_path / "torn"
    torn.mkdir()
    write(torn, 0, [noted(ONGOING)], [noted(COMMIT)], tail=b"x" * 100)
    assert TransactionDecisions(disk, str(torn)).fate(PLACE, 7, 3) is UNKNOWN
