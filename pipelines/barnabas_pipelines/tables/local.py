"""A table of this machine, looked at without Spark: for plans, before a session is started.

Source: the package `deltalake`, which reads Delta Lake's format without a JVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from barnabas_pipelines.tables.marks import Commit, Mark, newest_mark

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A data file: its topic if the table is partitioned by it, and the times of its records."""

    topic: str | None
    record_count: int
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTable:
    """What there is to know of a table without reading its rows."""

    version: int
    mark: Mark | None
    files: tuple[FileFacts, ...]

    @property
    def record_count(self) -> int:
        """How many rows it has."""
        return sum(one.record_count for one in self.files)

    @property
    def topics(self) -> list[str]:
        """What is archived: by the mark, or by the files where its history was cleaned away."""
        if self.mark is not None:
            return [one.name for one in self.mark.topics]
        return sorted({one.topic for one in self.files if one.topic is not None})


def is_local(path: str) -> bool:
    """Whether the path is of this machine."""
    return urlsplit(path).scheme in ("", "file")


def local_table(path: str) -> LocalTable | None:
    """The table in a folder of this machine; None if there is none (yet)."""
    from deltalake import DeltaTable

    parts = urlsplit(path)
    folder = Path(parts.path if parts.scheme else path).absolute()
    if not (folder / "_delta_log").is_dir() or not DeltaTable.is_deltatable(str(folder)):
        return None
    table = DeltaTable(str(folder))
    return LocalTable(
        version=table.version(),
        mark=newest_mark(_commit(one) for one in table.history()),
        files=tuple(_file(one) for one in _actions(table)),
    )


def _actions(table: DeltaTable) -> list[dict[str, Any]]:
    import pyarrow as pa

    return pa.table(table.get_add_actions(flatten=True)).to_pylist()


def _file(action: dict[str, Any]) -> FileFacts:
    def moment_ms(value: Any) -> int | None:
        return None if value is None else round(value.timestamp() * 1000)

    return FileFacts(
        topic=action.get("partition.topic"),
        record_count=int(action.get("num_records") or 0),
        first_ms=moment_ms(action.get("min.timestamp")),
        last_ms=moment_ms(action.get("max.timestamp")),
    )


def _commit(entry: dict[str, Any]) -> Commit:
    return Commit(
        version=int(entry["version"]),
        timestamp_ms=int(entry.get("timestamp") or 0),
        operation=str(entry.get("operation") or ""),
        parameters={
            name: str(value) for name, value in entry.get("operationParameters", {}).items()
        },
        user_metadata=entry.get("userMetadata"),
    )
