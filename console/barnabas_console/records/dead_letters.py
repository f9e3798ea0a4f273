"""Dead letters: where the record came from, by the headers of those who write them. Pure.

Known are share groups (KIP-1191: `__dlq.errors.`), Kafka Connect (`__connect.errors.`) and Spring
(`kafka_dlt-`). Source: CON-116.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_protocol.records.record import Header

SHARE_GROUP_PREFIX: Final = "__dlq.errors."
_TEXT_PREFIXES: Final = (SHARE_GROUP_PREFIX, "__connect.errors.")
_SPRING: Final = "kafka_dlt-"
_PREFIXES: Final = (*_TEXT_PREFIXES, _SPRING)
_INTEGERS: Final = {4: struct.Struct(">i"), 8: struct.Struct(">q")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a record was before it became a dead letter; the place in it where that is told."""

    topic: str
    partition: int | None = None
    offset: int | None = None


def origin_of(headers: Sequence[Header]) -> Origin | None:
    """Where the record came from; None if it is no dead letter that we know."""
    contents = dict(headers)
    for prefix in _TEXT_PREFIXES:
        topic = _text(contents.get(f"{prefix}topic"))
        if topic:
            return Origin(
                topic=topic,
                partition=_number(contents.get(f"{prefix}partition")),
                offset=_number(contents.get(f"{prefix}offset")),
            )
    topic = _text(contents.get(f"{_SPRING}original-topic"))
    if not topic:
        return None
    return Origin(
        topic=topic,
        partition=_integer(contents.get(f"{_SPRING}original-partition")),
        offset=_integer(contents.get(f"{_SPRING}original-offset")),
    )


def own_headers(headers: Sequence[Header]) -> list[Header]:
    """The headers that the record had itself: without those that tell of its failure."""
    return [(name, content) for name, content in headers if not name.startswith(_PREFIXES)]


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


def _number(content: bytes | None) -> int | None:
    text = _text(content)
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 18):
        return None
    return int(text)


def _integer(content: bytes | None) -> int | None:
    layout = None if content is None else _INTEGERS.get(len(content))
    if layout is None or content is None:
        return None
    (number,) = layout.unpack(content)
    return int(number) if number >= 0 else None
