"""What is known of a version of a snapshot: the offsets that it holds, and of which topic. Pure.

Kept as JSON in the version's folder, as `_manifest.json`: readers of Parquet skip such names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from barnabas_pipelines.errors import PipelineError

NAME: Final = "_manifest.json"
_FORMAT: Final = 1


class ManifestError(PipelineError):
    """A manifest cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a table.

    `next_offsets` are exclusive ends, by partition: where the next version reads on. No tombstone
    that was there at `complete_at_ms` has been missed. `topic_id` is None where brokers have none.
    `decoding` says how the columns besides the bytes were made.
    """

    number: int
    topic: str
    topic_id: str | None
    next_offsets: Mapping[int, int]
    complete_at_ms: int
    row_count: int
    has_headers: bool
    decoding: str

    def text(self) -> str:
        """As JSON."""
        offsets = {str(one): self.next_offsets[one] for one in sorted(self.next_offsets)}
        document = {"format": _FORMAT, **asdict(self), "next_offsets": offsets}
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """Read what `text` wrote.

        Raises: ManifestError.
        """
        try:
            document = json.loads(text)
            if document.pop("format") != _FORMAT:
                raise ManifestError("a snapshot of another release: run with --rebuild")
            offsets = {int(one): int(end) for one, end in document.pop("next_offsets").items()}
            return cls(next_offsets=offsets, **document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ManifestError(f"{NAME} cannot be read ({error}): run with --rebuild") from None
