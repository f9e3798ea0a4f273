"""What a table says of itself with each commit: how far it reaches in its topics. Pure.

Every commit of a job carries a `Mark` in its user metadata. The newest one is all that a job
remembers between two batches: there is no other state that could contradict the table. So the
mark that counts is found again whatever others did in between:

    OPTIMIZE, VACUUM, ...   change no record: the search goes on behind them
    DELETE, appends         are somebody's own will, and move no end of ours
    RESTORE                 takes the table back: the search goes on at the version it was taken to
    anything else           may have replaced records: refused

A mark is true of the version that its batch was planned on (`base`) and what the batch adds. Delta
lets an append pass that a RESTORE or an overwrite has overtaken, and its mark then claims records
that are gone: such a mark is refused, too.

Invariants: every record of a topic below the `ends` of its reach, and not below its `starts` nor
in a gap, was in the table with that commit; `sequence` grows by one with each commit of a job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas_pipelines.errors import PipelineError

_FORM: Final = 1

#: Operations of Delta that take no record of ours away but by somebody's own will.
_PASSED_OVER: Final = frozenset(
    {
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "CLUSTER BY",
        "COMPUTE STATS",
        "CONVERT",
        "DELETE",
        "DROP CONSTRAINT",
        "OPTIMIZE",
        "REORG",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "UPGRADE PROTOCOL",
        "VACUUM END",
        "VACUUM START",
    }
)


class TableChangedError(PipelineError):
    """Somebody changed the table so that it is not known how far it reaches."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that were gone from the topic before they were read; `end` is exclusive."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReach:
    """What a table has of a topic: by partition, the offsets from `starts` to before `ends`.

    `topic_id` is None where brokers have no ids. `epochs` are the leader epochs that the logs were
    in when the ends were planned, where brokers tell them.
    """

    name: str
    topic_id: str | None
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    epochs: Mapping[int, int] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a commit of a job says: whose it is, how far the table reaches, and further facts.

    `attempt` is of one try to commit, so that a writer knows its own commit from another's; `base`
    is the version of the table that the batch was planned on, -1 if there was none.
    """

    kind: str
    sequence: int
    attempt: str
    topics: tuple[TopicReach, ...]
    base: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    def topic(self, name: str) -> TopicReach | None:
        """What the table has of a topic; None if it never had anything of it."""
        return next((one for one in self.topics if one.name == name), None)

    def to_text(self) -> str:
        """The user metadata of the commit."""
        topics = [
            {
                "name": one.name,
                "id": one.topic_id,
                "starts": {str(partition): offset for partition, offset in one.starts.items()},
                "ends": {str(partition): offset for partition, offset in one.ends.items()},
                "epochs": {str(partition): epoch for partition, epoch in one.epochs.items()},
                "gaps": [[gap.partition, gap.start, gap.end] for gap in one.gaps],
            }
            for one in self.topics
        ]
        document = {
            "barnabas": _FORM,
            "kind": self.kind,
            "sequence": self.sequence,
            "attempt": self.attempt,
            "base": self.base,
            "topics": topics,
            "facts": dict(self.facts),
        }
        return json.dumps(document, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit of a table's history; `parameters` and `metrics` are texts by name."""

    version: int
    timestamp_ms: int
    operation: str
    parameters: Mapping[str, str]
    user_metadata: str | None
    metrics: Mapping[str, str] = field(default_factory=dict)

    def mark(self) -> Mark | None:
        """The mark of a job; None if it is of somebody else. Raises: TableChangedError."""
        return parse_mark(self.user_metadata)


def parse_mark(text: str | None) -> Mark | None:
    """Read what `to_text` wrote; None if it is something else.

    Raises: TableChangedError if a newer version of this package wrote it.
    """
    try:
        document = json.loads(text or "")
        form = document["barnabas"]
    except (ValueError, KeyError, TypeError):
        return None
    if form != _FORM:
        raise TableChangedError(
            f"the table was written by a newer version of this package (form {form}, this one "
            f"knows {_FORM})"
        )
    return Mark(
        kind=document["kind"],
        sequence=document["sequence"],
        attempt=document["attempt"],
        base=document["base"],
        topics=tuple(
            TopicReach(
                name=one["name"],
                topic_id=one["id"],
                starts={int(partition): offset for partition, offset in one["starts"].items()},
                ends={int(partition): offset for partition, offset in one["ends"].items()},
                epochs={int(partition): epoch for partition, epoch in one["epochs"].items()},
                gaps=tuple(Gap(*gap) for gap in one["gaps"]),
            )
            for one in document["topics"]
        ),
        facts=document["facts"],
    )


def newest_mark(history: Iterable[Commit]) -> Mark | None:
    """The mark of what the table has now; None if the history has none.

    The history begins with the newest commit. Raises: TableChangedError.
    """
    restored: Commit | None = None
    commits = iter(history)
    for commit in commits:
        if restored is not None and not _is_restored(commit, restored):
            continue
        restored = None
        mark = commit.mark()
        # A mark that comes with another operation was put there by somebody's session settings.
        if commit.operation == "RESTORE":
            restored = commit
        elif mark is not None:
            _check_not_overtaken(mark, commit, commits)
            return mark
        elif not _leaves_records(commit):
            raise TableChangedError(
                f"version {commit.version} of the table ({commit.operation}) is not of this job "
                "and may have replaced what was there: RESTORE the version before it, or write to "
                "another folder"
            )
    return None


def _check_not_overtaken(mark: Mark, commit: Commit, before: Iterable[Commit]) -> None:
    """Look at what was committed between the plan of a batch and its commit."""
    for other in before:
        if other.version <= mark.base:
            return
        if not _leaves_records(other):
            raise TableChangedError(
                f"version {other.version} of the table ({other.operation}) came in while version "
                f"{commit.version} was made, which does not know of it: RESTORE it to version "
                f"{commit.version - 1}, or write to another folder"
            )


def _leaves_records(commit: Commit) -> bool:
    if commit.operation in ("WRITE", "STREAMING UPDATE"):
        return commit.parameters.get("mode", "Append").strip('"') in ("Append", "ErrorIfExists")
    return commit.operation in _PASSED_OVER or commit.operation.startswith("CREATE TABLE")


def _is_restored(commit: Commit, restore: Commit) -> bool:
    """Whether the commit belongs to what the table was taken back to."""
    version = restore.parameters.get("version")
    if version not in (None, "null"):
        return commit.version <= int(version)
    moment = restore.parameters.get("timestamp", "")
    raise TableChangedError(
        f"version {restore.version} of the table took it back to the time {moment}: RESTORE it "
        "once more, to a version"
    )
