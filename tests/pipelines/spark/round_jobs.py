"""The jobs of `tests.pipelines.kill_rounds`: what each is told, and what must be true at the end.

All is looked at without Spark: tables by `deltalake`, topics by a consumer of our own.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from barnabas_client import ConsumerRecord
from tests.pipelines.spark.killed_aggregates import compacted, produced
from tests.pipelines.spark.numbered_records import PARTITIONS, read_topic

KEYS = 300


@dataclass(kw_only=True)
class RoundJob:
    """One job in one round, in a folder of its own. `attempt` counts new beginnings."""

    name: str
    bootstrap: str
    topic: str
    folder: Path
    via: str
    archive: Path
    attempt: int = field(default=0)

    @property
    def place(self) -> Path:
        """What the job remembers by: its table, or its checkpoint."""
        return self.folder / f"place-{self.attempt}"

    @property
    def target(self) -> str:
        """The topic that it writes to, if it writes to one."""
        return f"{self.topic}-target"

    def arguments(self) -> list[str]:
        """What the job is told."""
        brokers = ["--bootstrap-servers", self.bootstrap]
        place = str(self.place)
        match self.name:
            case "archive":
                own = ["--topics", self.topic, "--path", place, "--via", self.via]
                return [*brokers, *own, "--max-offsets-per-trigger", "1000"]
            case "snapshot":
                own = ["--topic", self.topic, "--table", place, "--via", self.via]
                return [*brokers, *own, "--key-format", "text"]
            case "aggregate":
                return [
                    *(*brokers, "--topic", self.topic, "--target", self.target),
                    *("--create-target", "--checkpoint", place, "--via", self.via),
                    *("--group-by", "group", "--measures", "count, sum(n)"),
                    *("--state-partitions", "2", "--window", "10s", "--watermark", "2h"),
                    *("--max-offsets-per-trigger", "1000"),
                ]
            case _:
                own = ["--path", str(self.archive), "--target", self.target]
                return [*brokers, *own, "--checkpoint", place, "--rate", "400"]

    def check(self, *, is_whole: bool) -> str:
        """Compare what was written with what there is to be written; says how much that is.

        Where it is not whole, all that is there must be right all the same. Raises: AssertionError.
        """
        return {
            "archive": self._check_archive,
            "snapshot": self._check_snapshot,
            "aggregate": self._check_aggregate,
            "replay": self._check_replay,
        }[self.name](is_whole)

    def _check_archive(self, is_whole: bool) -> str:
        found = archived(self.place)
        places = [row[:2] for row in found]
        assert len(places) == len(set(places)), "records are archived twice"
        expected = [as_row(record) for record in self._records()]
        _compare(found, expected, is_whole=is_whole)
        return f"{len(found)} archived"

    def _check_snapshot(self, is_whole: bool) -> str:
        rows = DeltaTable(str(self.place)).to_pyarrow_table().to_pylist() if is_whole else []
        found = sorted((bytes(row["key"]), bytes(row["value"])) for row in rows)
        latest = {record.key or b"": record.value for record in self._records()}
        _compare(found, sorted(latest.items()), is_whole=is_whole)
        return f"{len(found)} keys"

    def _check_aggregate(self, is_whole: bool) -> str:
        rows = read_topic(self.bootstrap, self.target)
        found, expected = compacted(rows), produced(self._records())
        _compare(sorted(found.items()), sorted(expected.items()), is_whole=is_whole)
        return f"{len(found)} windows and groups in {len(rows)} rows"

    def _check_replay(self, is_whole: bool) -> str:
        found = [
            as_row(one)[:1] + as_row(one)[2:] for one in read_topic(self.bootstrap, self.target)
        ]
        expected = [row[:1] + row[2:] for row in archived(self.archive)]
        if is_whole:
            assert found == expected, f"{len(found)} records in the target, not {len(expected)}"
        return f"{len(found)} replayed"

    def _records(self) -> list[ConsumerRecord]:
        return read_topic(self.bootstrap, self.topic, PARTITIONS)


def archived(path: Path) -> list[tuple[Any, ...]]:
    """The rows of an archive, by partition and offset."""
    if not DeltaTable.is_deltatable(str(path)):
        return []
    columns = ["partition", "offset", "key", "value", "timestamp"]
    table = DeltaTable(str(path)).to_pyarrow_table(columns=columns)
    rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return sorted((*row[:4], round(row[4].timestamp() * 1000)) for row in rows)


def as_row(record: ConsumerRecord) -> tuple[Any, ...]:
    """A record as `archived` gives it."""
    return record.partition, record.offset, record.key, record.value, record.timestamp_ms


def _compare(found: Sequence[Any], expected: Sequence[Any], *, is_whole: bool) -> None:
    if is_whole:
        assert found == expected, (
            f"{len(found)} are there, not {len(expected)}; missing "
            f"{[one for one in expected if one not in found][:3]}, surplus "
            f"{[one for one in found if one not in expected][:3]}"
        )


def value_of(number: int, generation: int) -> bytes:
    """The value of a record; a topic that was made anew has another generation."""
    return json.dumps({"group": f"g{number % 7}", "n": number + generation * 1_000_000}).encode()
