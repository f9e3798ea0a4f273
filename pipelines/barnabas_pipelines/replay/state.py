"""What a replay remembers, so that it can go on after a kill: one small file. Pure.

It is written before the first record is sent: which version of the archive is replayed, where each
partition of the target ended then (`bases`), and how many records each is to get. How many it has
got already, the target itself tells: its end less its base.

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
_VERSION: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """A replay: what it was asked, and what was true when it began.

    `asked` is what somebody chose, `version` that of the archive's table; `bases` and
    `counts` are by partition of the target.
    """

    asked: Mapping[str, Any]
    topic_id: str | None
    version: int
    bases: Mapping[int, int]
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
            "asked": dict(self.asked),
            "topic_id": self.topic_id,
            "table_version": self.version,
            "bases": {str(partition): base for partition, base in self.bases.items()},
            "counts": {str(partition): count for partition, count in self.counts.items()},
            "done": self.is_done,
        }
        return json.dumps(document, indent=1) + "\n"

    def check_same(self, asked: Mapping[str, Any], topic_id: str | None, place: str) -> None:
        """Refuse to go on with another choice, or in another topic of the same name.

        Raises: OptionsError, TopicGoneError.
        """
        for name, value in asked.items():
            if self.asked.get(name) != value:
                raise OptionsError(
                    f"the checkpoint {place} is of another replay: {name} was "
                    f"{self.asked.get(name)}, now it is {value}; give this one a checkpoint of its "
                    "own"
                )
        if self.topic_id is not None and topic_id is not None and self.topic_id != topic_id:
            raise TopicGoneError(
                f"the target was deleted and made anew since the replay of {place} began: delete "
                "that folder to begin again"
            )

    def sent(self, ends: Mapping[int, int]) -> dict[int, int]:
        """How many records each partition of the target has got, by its end.

        Raises: PipelineError if one has shrunk, or has more than it was to get.
        """
        found = {}
        for partition, base in self.bases.items():
            count = ends.get(partition, 0) - base
            if count < 0 or count > self.counts.get(partition, 0):
                raise PipelineError(
                    f"partition {partition} of the target ends at offset {ends.get(partition, 0)}; "
                    f"the replay began at {base} and has {self.counts.get(partition, 0)} records "
                    "for it: somebody else writes to it, or it lost records; begin again with "
                    "another target and checkpoint"
                )
            found[partition] = count
        return found


def parse_state(text: str) -> ReplayState:
    """Read what `to_json` wrote. Raises: PipelineError if it is something else."""
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']}")
        return ReplayState(
            asked=document["asked"],
            topic_id=document["topic_id"],
            version=document["table_version"],
            bases={int(partition): base for partition, base in document["bases"].items()},
            counts={int(partition): count for partition, count in document["counts"].items()},
            is_done=document["done"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{FILE_NAME} in the checkpoint is of no replay: {error!r}") from error
