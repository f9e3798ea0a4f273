"""What a replay remembers, so that it can go on after a kill: one small file. Pure.

It is written before the first record is sent: which version of which table is replayed, by what id
the replay is known to the brokers, and how many records each partition of the target is to get. How
many it has got already stands in the target's cluster (`target.py`).

Invariants: nothing but `is_done` changes after the file was written; a file is of one choice of
records and one target only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas_pipelines.errors import OptionsError, PipelineError, TopicGoneError

FILE_NAME: Final = "replay.json"
_VERSION: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """A replay: what was requested, and what was true when it began.

    `requested` is what somebody chose, `version` that of the archive's table with `table_id`;
    `counts` are by partition of the target.
    """

    requested: Mapping[str, Any]
    topic_id: str | None
    table_id: str
    version: int
    replay_id: str
    counts: Mapping[int, int]
    is_done: bool = False

    @property
    def record_count(self) -> int:
        """How many records are to be sent in all."""
        return sum(self.counts.values())

    def to_json(self) -> str:
        """The text of the file."""
        document = {
            "version": _VERSION,
            "requested": dict(self.requested),
            "topic_id": self.topic_id,
            "table_id": self.table_id,
            "table_version": self.version,
            "replay_id": self.replay_id,
            "counts": {str(partition): count for partition, count in self.counts.items()},
            "done": self.is_done,
        }
        return json.dumps(document, indent=1) + "\n"

    def check_same(self, requested: Mapping[str, Any], topic_id: str | None, place: str) -> None:
        """Refuse to go on with another choice, or in another topic of the same name.

        Raises: OptionsError, TopicGoneError.
        """
        for name, value in requested.items():
            if self.requested.get(name) != value:
                raise OptionsError(
                    f"the checkpoint {place} is of another replay: {name} was "
                    f"{self.requested.get(name)}, now it is {value}; give this one a "
                    "checkpoint of its own"
                )
        self.check_target(topic_id, place)

    def check_target(self, topic_id: str | None, place: str) -> None:
        """Refuse another topic of the same name. Raises: TopicGoneError."""
        if self.topic_id is not None and topic_id is not None and self.topic_id != topic_id:
            raise TopicGoneError(
                f"the target was deleted and made anew since the replay of {place} began: delete "
                "that folder to begin again"
            )

    def check_table(self, table_id: str, place: str) -> None:
        """Refuse another table in the same folder. Raises: PipelineError."""
        if table_id != self.table_id:
            raise PipelineError(
                f"the archive was deleted and made anew since the replay of {place} began: what is "
                "left of the replay cannot be read any more; begin again with another target and "
                "checkpoint"
            )

    def check_sent(self, sent: Mapping[int, int]) -> None:
        """Refuse progress that cannot be of this replay. Raises: PipelineError."""
        for partition, count in self.counts.items():
            found = sent.get(partition)
            if found is None:
                raise PipelineError(progress_lost(partition))
            if not 0 <= found <= count:
                raise PipelineError(
                    f"partition {partition} of the target is said to have {found} records of this "
                    f"replay, which has {count} for it: somebody else has committed offsets to its "
                    "group; begin again with another target and checkpoint"
                )


def progress_lost(partition: int) -> str:
    """What to say when nobody knows how much a partition has got."""
    return (
        f"how much partition {partition} of the target has got is not known any more: the brokers "
        "keep it for offsets.retention.minutes after the last record; begin again with another "
        "target and checkpoint"
    )


def parse_state(text: str) -> ReplayState:
    """Read what `to_json` wrote. Raises: PipelineError if it is something else."""
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']}")
        return ReplayState(
            requested=document["requested"],
            topic_id=document["topic_id"],
            table_id=document["table_id"],
            version=document["table_version"],
            replay_id=document["replay_id"],
            counts={int(partition): count for partition, count in document["counts"].items()},
            is_done=document["done"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{FILE_NAME} in the checkpoint is of no replay: {error!r}") from error
