"""What a stopped broker's `__transaction_state` says of transactions that are open in a log.

A transaction is decided when its coordinator has noted so; its markers come later. A partition that
is taken out of its cluster in between has an open transaction that was committed, or aborted.

Not here: writing the markers (`log/import_directory.py`). Source: TXN-1, TXN-7; KIP-98, KIP-890.
Invariant: a transaction counts as decided only by a note that names its partition and its producer
epoch; whatever else is found, nothing is known of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from barnabas_broker.coordinator.transaction.records import read_key, read_transaction
from barnabas_broker.coordinator.transaction.state import (
    EPOCH_BUMP,
    Transaction,
    TransactionState,
)
from barnabas_broker.env.disk import Disk
from barnabas_broker.log import layout
from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.import_directory import TransactionFate
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import check_crc
from barnabas_protocol.records.record import Record, decode_records

_logger = logging.getLogger(__name__)
_TOPIC = "__transaction_state"


class TransactionDecisions:
    """The newest note on each producer id, of all partitions of `__transaction_state` given."""

    def __init__(self, disk: Disk, log_directory: str) -> None:
        """Read those in a log directory; there may be none. Blocks. Raises: OSError."""
        self._by_producer: dict[int, Transaction] = {}
        for name in disk.list_directory(log_directory):
            partition = layout.parse_partition_directory(name)
            if partition is not None and partition.topic == _TOPIC:
                self._read(disk, f"{log_directory}/{name}")

    def fate(
        self, topic_partition: TopicPartition, producer_id: int, producer_epoch: int
    ) -> TransactionFate:
        """What was decided of the transaction that a producer has open in a partition."""
        noted = self._by_producer.get(producer_id)
        if noted is None or topic_partition not in noted.partitions:
            return TransactionFate.UNKNOWN
        # One of version 2 ends with the epoch above the one that it wrote with.
        is_bumped = noted.state.is_prepared and noted.client_version >= EPOCH_BUMP
        written_epoch = noted.producer_epoch - is_bumped
        if noted.state is TransactionState.PREPARE_COMMIT:
            is_this = producer_epoch == written_epoch
            return TransactionFate.COMMITTED if is_this else TransactionFate.UNKNOWN
        # One that is aborted in the stead of its producer has a higher epoch, too, to fence it.
        is_this = written_epoch - 1 <= producer_epoch <= written_epoch
        return TransactionFate.ABORTED if is_this else TransactionFate.UNKNOWN

    def _read(self, disk: Disk, directory: str) -> None:
        transactions: dict[str, Transaction] = {}
        try:
            for record in _records(disk, directory):
                transactional_id = None if record.key is None else read_key(record.key)
                if transactional_id is None:
                    continue
                transactions.pop(transactional_id, None)
                if record.value is not None:
                    found = read_transaction(transactional_id, record.value)
                    if found is not None:
                        transactions[transactional_id] = found
        except (CorruptionError, ParseError) as error:
            # What is behind it may say otherwise than what is before it.
            _logger.warning("%s is left out: %s", directory, error)
            return
        for transaction in transactions.values():
            self._by_producer[transaction.producer_id] = transaction


def _records(disk: Disk, directory: str) -> Iterator[Record]:
    """Raises: CorruptionError but for what a crash leaves at the end; ParseError; OSError."""
    names = [name for name in disk.list_directory(directory) if name.endswith(layout.LOG_SUFFIX)]
    paths = [f"{directory}/{name}" for name in sorted(names)]
    for path in paths:
        file = disk.open(path, read_only=True)
        try:
            for position, header, data in scan_batches(path, file, 0, file.size()):
                if not check_crc(data, 0, header):
                    raise CorruptionError(path, position, "the checksum does not match")
                if not header.is_control:
                    yield from decode_records(data)
        except CorruptionError:
            if path != paths[-1]:
                raise
        finally:
            file.close()
