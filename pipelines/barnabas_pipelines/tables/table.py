"""The seam between jobs and the format of their tables: all that a job needs of one.

One implementation: `delta.py`. Another format needs what these methods say, and nothing else of
the package knows the difference.

Not here: what a mark means (`marks.py`), reading a table without Spark (`local.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.tables.marks import Mark, TableChangedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SecondWriterError(PipelineError):
    """Another job wrote to the table at the same time; nothing of this batch was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A table at one moment: version -1 if there is none.

    `table_id` is another one in a table that was made anew in the same folder. `sequence` is that
    of the last commit of any job; `mark` says what the table has. Without a mark a table with a
    sequence has lost the history that had it.
    """

    version: int
    sequence: int
    mark: Mark | None
    table_id: str = ""

    def check_kind(self, kind: str) -> None:
        """Make sure that no other job made the table. Raises: TableChangedError."""
        if self.mark is not None and self.mark.kind != kind:
            raise TableChangedError(
                f"the table is not of the job {kind}: the job {self.mark.kind} made it"
            )


class Table(Protocol):
    """A table in a folder. Only one of several writers that saw the same state can commit."""

    def state(self) -> TableState:
        """What it has now. Raises: TableChangedError."""

    def rows(self, version: int | None = None) -> DataFrame:
        """Its rows, of the newest or an older version; reading them fails if that is gone."""

    def append(self, rows: DataFrame, mark: Mark, partition_by: Sequence[str]) -> None:
        """Add rows in one commit. Raises: SecondWriterError."""

    def overwrite(self, rows: DataFrame, mark: Mark) -> None:
        """Put rows, and their columns, in place of all that is there. Raises: SecondWriterError."""

    def merge(self, changes: DataFrame, mark: Mark, key: str, deleted_where: str) -> None:
        """Replace, add and delete rows by key. Raises: SecondWriterError.

        `deleted_where` is SQL on the columns of `changes`.
        """

    def optimize(self) -> Mapping[str, int]:
        """Put small files together; the files added and removed."""

    def vacuum(self, older_than_hours: float) -> None:
        """Delete files that only versions older than this need."""
