"""A topic, Spark's way of running batches, and an archive in memory: all that can be killed."""

import json
import random
from collections.abc import Mapping, Sequence

from barnabas_pipelines.archive.batch_writer import BatchWriter, StagedBatch
from barnabas_pipelines.archive.directory import ArchiveDirectory, staging_path
from barnabas_pipelines.archive.manifest import BatchRange, Ends, Manifest
from tests.pipelines.memory_files import MemoryFiles

TOPIC = "orders"
Rows = Sequence[tuple[int, int]]


class StoryStager:
    """Stages rows as files of JSON, several a batch."""

    def __init__(self, directory: ArchiveDirectory, names: random.Random) -> None:
        self._directory = directory
        self._names = names
        self._attempt: str | None = None

    def stage(self, records: Rows, ends: Ends, last: Manifest | None) -> StagedBatch:
        store = self._directory.store
        self._attempt = f"{self._names.getrandbits(64):x}"
        reached = ends.get(TOPIC, {})
        rows = [row for row in records if row[1] >= reached.get(row[0], 0)]
        files = {}
        for part in range(3):
            text = json.dumps(rows[part::3])
            if rows[part::3]:
                path = f"dt=2026-11-2{part}/part-{part}.parquet"
                store.write(f"{staging_path(self._attempt)}/{path}", text)
                files[path] = len(text)
        return StagedBatch(
            attempt=self._attempt,
            ranges=ranges_of(rows),
            first_timestamp_ms=1,
            last_timestamp_ms=2,
            files=files,
        )

    def discard(self) -> None:
        if self._attempt is not None:
            self._directory.discard(self._attempt)


def ranges_of(rows: Rows) -> tuple[BatchRange, ...]:
    """What rows hold, by partition."""
    found = []
    for partition in sorted({row[0] for row in rows}):
        offsets = [row[1] for row in rows if row[0] == partition]
        found.append(
            BatchRange(
                topic=TOPIC,
                partition=partition,
                start=min(offsets),
                end=max(offsets) + 1,
                record_count=len(offsets),
            )
        )
    return tuple(found)


class ArchiveWorld:
    """Offsets without a record are those that `holes` names."""

    def __init__(self, *, renames: bool, seed: int) -> None:
        self.store = MemoryFiles(renames=renames)
        self.checkpoint = MemoryFiles()
        self.log_ends = {0: 0, 1: 0}
        self.holes: set[tuple[int, int]] = set()
        self.topic_ids: Mapping[str, str | None] = {TOPIC: "id-1"}
        self.random = random.Random(seed)
        self.said: list[str] = []

    @property
    def records(self) -> list[tuple[int, int]]:
        """All records of the topic."""
        places = [(one, offset) for one, end in self.log_ends.items() for offset in range(end)]
        return [place for place in places if place not in self.holes]

    def produce(self) -> None:
        """Some more records, and an offset without one now and then."""
        for partition in self.log_ends:
            for _ in range(self.random.randrange(6)):
                if self.random.random() < 0.1:
                    self.holes.add((partition, self.log_ends[partition]))
                self.log_ends[partition] += 1

    def writer(self) -> BatchWriter:
        """What a driver makes when it starts."""
        directory = ArchiveDirectory(self.store)
        last = directory.recover()
        return BatchWriter(
            directory,
            last,
            StoryStager(directory, self.random),
            topic_ids=lambda: self.topic_ids,
            checkpoint=self.checkpoint,
            say=self.said.append,
        )

    def run(self) -> None:
        """A driver from its start until everything that is there has been read."""
        writer = self.writer()
        last = ArchiveDirectory(self.store).last()
        first = last.ends.get(TOPIC, {}) if last is not None else {}
        while True:
            planned = self._numbers("offsets")
            number = planned[-1] if planned else -1
            if not planned or number in self._numbers("commits"):
                start = (
                    self._ends(number) if planned else {one: first.get(one, 0) for one in (0, 1)}
                )
                ends = self._portion(start)
                if ends == start:
                    return
                number += 1
                text = json.dumps({TOPIC: {str(one): end for one, end in ends.items()}})
                self.checkpoint.write(f"offsets/{number}", f"v1\n{{}}\n{text}")
            start = self._ends(number - 1) if number - 1 in planned else first
            rows = [
                row
                for row in self.records
                if start.get(row[0], 0) <= row[1] < self._ends(number)[row[0]]
            ]
            writer(rows, number)
            self.checkpoint.write(f"commits/{number}", "v1\n{}")

    def _portion(self, start: Mapping[int, int]) -> dict[int, int]:
        most = self.random.randrange(1, 8)
        return {one: min(end, start[one] + most) for one, end in self.log_ends.items()}

    def _numbers(self, folder: str) -> list[int]:
        return sorted(map(int, self.checkpoint.names(folder)))

    def _ends(self, number: int) -> dict[int, int]:
        text = self.checkpoint.read(f"offsets/{number}")
        assert text is not None
        found = json.loads(text.splitlines()[2])[TOPIC]
        return {int(one): end for one, end in found.items()}
