"""What `--verify` finds in a partition of an archive, and whether that is a fault. Pure.

The archive is compared with the topic offset by offset, between where the archive or the topic
begins and where the archive ends. Offsets that the topic gives no record for are gaps by the
broker's own word: compaction, ends of transactions.

Not here: counting (`verify.py`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFindings:
    """A partition as an archive has it, beside the topic; counts of offsets.

    Compared are the offsets from `compared_from` to before `end`. Below it are `older` ones, which
    the topic has no more; those that lie below the archive's own beginning or behind its end are
    `outside`. `first_fault` is the lowest offset that is missing, doubled, different or surplus.
    """

    topic: str
    partition: int
    compared_from: int
    end: int
    record_count: int = 0
    older: int = 0
    older_doubled: int = 0
    outside: int = 0
    missing: int = 0
    doubled: int = 0
    different: int = 0
    surplus: int = 0
    gone_before: int = 0
    first_fault: int | None = None
    is_compacted: bool = False

    def fault(self) -> str | None:
        """What is wrong, in one clause; None if nothing is."""
        parts = []
        if self.missing:
            parts.append(f"{self.missing:,} records of the topic are missing")
        if self.doubled or self.older_doubled:
            parts.append(f"{self.doubled + self.older_doubled:,} records are there twice")
        if self.different:
            parts.append(f"{self.different:,} records differ in key, value, headers or timestamp")
        if self.surplus and not self.is_compacted:
            parts.append(f"{self.surplus:,} records are not in the topic")
        if self.outside:
            parts.append(f"{self.outside:,} records lie outside of what the archive says it has")
        if not parts:
            return None
        first = (
            f", the first at offset {self.first_fault:,}" if self.first_fault is not None else ""
        )
        return f"{self.topic}-{self.partition}: {', '.join(parts)}{first}"

    def text(self) -> str:
        """One line for a partition without a fault."""
        parts = [f"{self.record_count:,} records, each once and the same as in the topic"]
        offsets = self.end - self.compared_from
        gaps = offsets - (self.record_count - self.older)
        if self.surplus:
            parts.append(f"{self.surplus:,} of them compacted away there")
        if self.older:
            parts.append(f"{self.older:,} of them older than the topic, not compared")
        if gaps:
            parts.append(f"{gaps:,} offsets have no record there either")
        if self.gone_before:
            parts.append(f"{self.gone_before:,} offsets were gone before they were read")
        return f"{self.topic}-{self.partition}: up to offset {self.end:,}, {', '.join(parts)}"
