"""What Spark's checkpoint says of a batch's offsets. Pure but for reading one small file.

`CHECKPOINT/offsets/N` is written before batch N is run, and has the offsets at its end: a line with
the form's version, one with metadata, then one per source. The connector writes
`{"orders": {"0": 23}}`, our source `{"form": 1, "topics": {"orders": {"offsets": {"0": 23}}}}`.

Source: OffsetSeqLog and KafkaSourceOffset of Spark 4.2. Where a file is missing or of another form,
the answer is None: nothing here is needed for correctness, only to notice contradictions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from barnabas_pipelines.archive.manifest import Ends
from barnabas_pipelines.storage.file_store import FileStore

_SOURCE_LINE: Final = 2


def batch_ends(checkpoint: FileStore, batch_id: int) -> Ends | None:
    """The offsets behind a batch, if the checkpoint knows them."""
    text = checkpoint.read(f"offsets/{batch_id}") if batch_id >= 0 else None
    if text is None:
        return None
    lines = text.splitlines()
    try:
        return offsets_in(json.loads(lines[_SOURCE_LINE]))
    except (IndexError, ValueError):
        return None


def offsets_in(document: Any) -> Ends | None:
    """Offsets by topic and partition, of either source's JSON; None if it is neither."""
    if not isinstance(document, Mapping):
        return None
    topics = document
    if isinstance(document.get("topics"), Mapping) and "form" in document:
        topics = {
            topic: found.get("offsets") if isinstance(found, Mapping) else None
            for topic, found in document["topics"].items()
        }
    try:
        return {
            str(topic): {int(partition): int(offset) for partition, offset in found.items()}
            for topic, found in topics.items()
        }
    except (AttributeError, TypeError, ValueError):
        return None
