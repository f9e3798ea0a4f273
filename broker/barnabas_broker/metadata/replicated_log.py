"""What the metadata log needs of a partition log, and no more.

`log.partition_log.PartitionLog` fulfils it; so does the log in memory that tests use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.leader_epochs import LeaderEpochs


class LogRead(Protocol):
    """What a read gives: whole batches."""

    @property
    def buffers(self) -> Sequence[Buffer]:
        """The bytes, in order; the first batch contains the offset asked for."""
        ...


class ReplicatedLog(Protocol):
    """A log of record batches with leader epochs, on disk."""

    @property
    def directory(self) -> str:
        """Where its files are; snapshots are put beside them."""
        ...

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """Which epoch begins at which offset."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record written, exclusive."""
        ...

    @property
    def high_watermark(self) -> int:
        """Below it all was known to be committed, also before a restart; never above the end."""
        ...

    @property
    def size_bytes(self) -> int:
        """How much there is to replay at most."""
        ...

    def append_as_leader(
        self, records: memoryview, leader_epoch: int, *, internal: bool = False, now_ms: int
    ) -> object:
        """Give a batch its offsets and stage it."""
        ...

    def append_as_follower(self, records: memoryview) -> object:
        """Stage batches with the offsets and epochs that the leader gave them."""
        ...

    def discard_staged(self) -> None:
        """Forget what is staged and not written."""
        ...

    def write_staged(self) -> None:
        """Write what is staged; only then does the log end offset move."""
        ...

    def advance_high_watermark(self, offset: int) -> object:
        """Say that everything below is committed."""
        ...

    async def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool = True
    ) -> LogRead:
        """Read whole batches from an offset on."""
        ...

    async def flush(self, upto: int | None = None) -> object:
        """Bring what is written to the disk's surface."""
        ...

    async def truncate(self, offset: int) -> bool:
        """Make an offset the log end, whatever crashes; returns whether it was above."""
        ...

    async def settle_cut(self) -> None:
        """Return when no crash can bring back what was dropped."""
        ...

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is then empty at an offset."""
        ...

    async def delete_records(self, offset: int) -> object:
        """Let the log begin at an offset."""
        ...
