"""How far a streaming query is, as offsets that a consumer group can have. Pure.

Spark tells it in two places: each finished batch's event has an end offset per source, and the
checkpoint has the same in `offsets/N` for every batch N, with a file `commits/N` when it is done.
The connector's offsets are `{"orders": {"0": 23}}`, those of `format("barnabas")` are
`StreamOffsets`; what other sources say (files, rates) is passed over.

Not here: committing (`group_commits.py`), listening (`progress.py`).
Source: Spark's offset log, version 1: `v1`, a line of metadata, a line per source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.offsets import StreamOffsets
from barnabas_protocol.ids import TopicPartition

_VERSION: Final = "v1"
_LINES_BEFORE_SOURCES: Final = 2


class CheckpointFiles(Protocol):
    """Reads below the checkpoint's folder (`storage.file_store.FileStore` does)."""

    def names(self, path: str = "") -> tuple[str, ...]:
        """What is in a folder; nothing where there is none."""

    def read(self, path: str) -> str | None:
        """The text of a file; None if there is none."""


def offsets_of_sources(end_offsets: Iterable[str | None]) -> dict[TopicPartition, int]:
    """Behind what a query has done with every partition, told the end offset of each source.

    A partition that two sources read is done as far as both are.
    """
    done: dict[TopicPartition, int] = {}
    for text in end_offsets:
        for partition, offset in _offsets(text).items():
            done[partition] = min(offset, done.get(partition, offset))
    return done


def offsets_of_checkpoint(files: CheckpointFiles) -> dict[TopicPartition, int]:
    """Behind the last finished batch; nothing if there is none, or its form is not known."""
    finished = [int(name) for name in files.names("commits") if name.isdecimal()]
    text = files.read(f"offsets/{max(finished)}") if finished else None
    lines = (text or "").splitlines()
    if not lines or lines[0] != _VERSION:
        return {}
    return offsets_of_sources(lines[_LINES_BEFORE_SOURCES:])


def _offsets(text: str | None) -> Mapping[TopicPartition, int]:
    try:
        value = json.loads(text or "")
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return _connector_offsets(value) or _own_offsets(value)


def _connector_offsets(value: Mapping[str, Any]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            return {}
        for number, offset in partitions.items():
            if not (number.isdecimal() and type(offset) is int and offset >= 0):
                return {}
            found[TopicPartition(topic, int(number))] = offset
    return found


def _own_offsets(value: Mapping[str, Any]) -> Mapping[TopicPartition, int]:
    try:
        return StreamOffsets.from_json(value).offsets
    except PipelineError:
        return {}
