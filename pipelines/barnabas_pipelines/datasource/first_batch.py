"""Where the first batch of a query began, kept with its end in the checkpoint. Pure.

Spark's checkpoint has the end of each batch; where it began is the end of the one before. The first
batch has none before it: when it is planned again after a restart, Spark asks the source once more
where to begin, and what `latest` or `earliest` mean has changed by then. So the offsets that a
query begins at say so (`begun`), and the end of its first batch repeats them; that end is in the
checkpoint before anything of the batch is read.

Invariants: a first batch begins where it began when it was planned first, or is an error; with
nothing new the end is the start to the letter, because Spark compares texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.offsets import StreamOffsets

_BEGUN: Final = "begun"


def initial_json(start: StreamOffsets) -> dict[str, Any]:
    """Where a query begins, as Spark hands it on to the planning of the first batch."""
    offsets = start.to_json()
    return {**offsets, _BEGUN: offsets["topics"]}


def end_json(start: Mapping[str, Any], end: StreamOffsets) -> dict[str, Any]:
    """Where the batch after `start` ends, as it stands in the checkpoint."""
    offsets = end.to_json()
    if offsets["topics"] == start["topics"]:
        return dict(start)
    return {**offsets, _BEGUN: start[_BEGUN]} if _is_initial(start) else offsets


def start_of_batch(start: Mapping[str, Any], end: Mapping[str, Any]) -> StreamOffsets:
    """Where the batch begins: for the first one what its end says, not what Spark has now.

    Raises: PipelineError if that is not known.
    """
    found = StreamOffsets.from_json(start)
    begun = end.get(_BEGUN)
    if begun is not None:
        return StreamOffsets.from_json({**end, "topics": begun})
    if _is_initial(start):
        raise PipelineError(
            "the checkpoint does not say where its first batch began, and that batch was not"
            " finished: where it would begin now may be elsewhere. Give the query a new checkpoint,"
            " with startingOffsets where it is to begin"
        )
    return found


def _is_initial(start: Mapping[str, Any]) -> bool:
    """Whether nothing was read yet."""
    return start.get(_BEGUN) == start["topics"]
