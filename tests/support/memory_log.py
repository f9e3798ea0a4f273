"""A log of batches in memory, for tests of what stands on a log: `metadata.replicated_log`."""

from collections.abc import Sequence

from barnabas_broker.log.leader_epochs import LeaderEpochs
from barnabas_protocol.records.batch import iterate_headers, read_header, stamp


class MemoryRead:
    def __init__(self, buffers: Sequence[bytes]) -> None:
        self.buffers = buffers
        self.size_bytes = sum(map(len, buffers))


class MemoryLog:
    """Batches in three states: staged, written, flushed. `crash` forgets what is not flushed."""

    def __init__(self, directory: str = "log") -> None:
        self.directory = directory
        self.leader_epochs = LeaderEpochs(None, "leader-epochs")
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.flush_count = 0
        self.write_error: Exception | None = None
        self._staged: list[bytes] = []
        self._staged_end_offset = 0
        self._written: list[bytes] = []
        self._flushed_count = 0

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self._written))

    def append_as_leader(
        self, records: memoryview, leader_epoch: int, *, internal: bool = False, now_ms: int
    ) -> None:
        assert internal
        batch = bytearray(records)
        stamp(batch, 0, self._staged_end_offset, leader_epoch)
        self.leader_epochs.assign(leader_epoch, self._staged_end_offset)
        self._staged_end_offset = read_header(batch).last_offset + 1
        self._staged.append(bytes(batch))

    def append_as_follower(self, records: memoryview) -> None:
        for position, header in iterate_headers(records):
            self.leader_epochs.assign(header.leader_epoch, header.base_offset)
            self._staged.append(bytes(records[position : position + header.size_bytes]))
            self._staged_end_offset = header.last_offset + 1

    def discard_staged(self) -> None:
        self._staged.clear()
        self._staged_end_offset = self.log_end_offset

    async def truncate(self, offset: int) -> bool:
        if offset >= self.log_end_offset:
            return False
        self._written = [b for b in self._written if read_header(b).last_offset < offset]
        self._flushed_count = min(self._flushed_count, len(self._written))
        self.leader_epochs.truncate_from_end(offset)
        self.log_end_offset = self._staged_end_offset = offset
        return True

    async def settle_cut(self) -> None:
        pass

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._written.clear()
        self._staged.clear()
        self._flushed_count = 0
        self.leader_epochs.clear()
        self.log_start_offset = self.log_end_offset = self._staged_end_offset = offset
        self.high_watermark = offset

    def write_staged(self) -> None:
        if self.write_error is not None:
            raise self.write_error
        self._written += self._staged
        self._staged.clear()
        self.log_end_offset = self._staged_end_offset

    def advance_high_watermark(self, offset: int) -> None:
        self.high_watermark = max(self.high_watermark, offset)

    async def flush(self, upto: int | None = None) -> None:
        self.flush_count += 1
        self._flushed_count = len(self._written)

    async def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool = True
    ) -> MemoryRead:
        found = [b for b in self._written if offset <= read_header(b).last_offset < limit_offset]
        taken: list[bytes] = []
        for batch in found:
            if taken and sum(map(len, taken)) + len(batch) > max_bytes:
                break
            taken.append(batch)
        return MemoryRead(taken)

    async def delete_records(self, offset: int) -> None:
        self.log_start_offset = offset
        self._written = [b for b in self._written if read_header(b).last_offset >= offset]
        self._flushed_count = len(self._written)

    def crash(self) -> None:
        del self._written[self._flushed_count :]
        self._staged.clear()
        self.log_end_offset = self.log_start_offset
        for batch in self._written:
            for _, header in iterate_headers(batch):
                self.log_end_offset = header.last_offset + 1
        self._staged_end_offset = self.log_end_offset
