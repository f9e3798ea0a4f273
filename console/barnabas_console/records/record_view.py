"""One record as a viewer may see it: decoded and masked, each part when it is first needed.

Invariant: nothing but this module reads the bytes of a record for somebody; so filter, page, export
and download see the same, masked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from barnabas_client.consumer.records import LOG_APPEND_TIME, ConsumerRecord
from barnabas_client.facts.moments import moment_text
from barnabas_client.facts.record_format import text as header_text
from barnabas_console.records.content import (
    TREE_BYTES_MAX,
    Content,
    Format,
    UnreadableError,
    json_tree,
)
from barnabas_console.records.decoding import TopicDecoding
from barnabas_console.records.json_text import JsonValue, has_many_values
from barnabas_console.records.masking import NO_MASK, TopicMask
from barnabas_protocol.records.batch import BatchHeader
from barnabas_protocol.records.record import Record

SHOWN_CHARACTERS_MAX: Final = 4096
"""So much of a key, a value or a header a list shows."""
_HEADERS_SHOWN_MAX: Final = 32
HEADERS_WHOLE_MAX: Final = 1_000
"""So many headers the row of one record has; more than anybody writes again."""
# What is larger is worked on by a thread, which gives way to the loop.
_INLINE_BYTES_MAX: Final = 16 * 1024
_HEADER_BYTES: Final = 64

T = TypeVar("T")


class RecordView:
    """A record with what it takes to read it; `FilterableRecord` of the filters."""

    __slots__ = ("_decoding", "_headers", "_key", "_mask", "_record", "_value", "batch", "source")

    def __init__(
        self,
        source: ConsumerRecord,
        batch: BatchHeader | None,
        decoding: TopicDecoding,
        mask: TopicMask = NO_MASK,
    ) -> None:
        """`batch` is the header of the batch that it stands in, where that is known."""
        #: As it is stored; never for the viewer.
        self.source = source
        self.batch = batch
        self._decoding = decoding
        self._mask = mask
        self._record = Record(
            source.offset, source.timestamp_ms, source.key, source.value, source.headers
        )
        self._key: Content | None = None
        self._value: Content | None = None
        self._headers: list[tuple[str, str | None]] | None = None

    @property
    def size_bytes(self) -> int:
        """Roughly how much there is to be read."""
        source = self.source
        size = len(source.key or b"") + len(source.value or b"")
        return size + _HEADER_BYTES * len(source.headers)

    @property
    def partition(self) -> int:
        """Its partition."""
        return self.source.partition

    @property
    def offset(self) -> int:
        """Its offset."""
        return self.source.offset

    @property
    def timestamp_ms(self) -> int:
        """Its timestamp; -1 without one."""
        return self.source.timestamp_ms

    @property
    def key(self) -> Content:
        """The key as it may be shown."""
        if self._key is None:
            self._key = self._mask.apply_to_key(self._decoding.key(self._record))
        return self._key

    @property
    def value(self) -> Content:
        """The value as it may be shown."""
        if self._value is None:
            self._value = self._mask.apply_to_value(self._decoding.value(self._record))
        return self._value

    @property
    def headers(self) -> list[tuple[str, str | None]]:
        """The headers as they may be shown."""
        if self._headers is None:
            mask = self._mask
            self._headers = [
                (name, mask.apply_to_header(name, header_text(content, None)))
                for name, content in self.source.headers
            ]
        return self._headers

    @property
    def key_text(self) -> str | None:
        """The key as text; None if it is null or no text."""
        return self.key.text if self.key.is_text else None

    @property
    def value_text(self) -> str | None:
        """The value as text; None if it is null or no text."""
        return self.value.text if self.value.is_text else None

    @property
    def is_key_null(self) -> bool:
        """Whether there is no key."""
        return self.source.key is None

    @property
    def is_value_null(self) -> bool:
        """Whether it is a tombstone."""
        return self.source.value is None

    @property
    def value_json(self) -> Iterable[JsonValue]:
        """The value as JSON; nothing where it is none."""
        content = self.value
        if content.tree:
            return content.tree
        if content.text is None or not (content.is_json or content.format is Format.TEXT):
            return ()
        if len(content.text) > TREE_BYTES_MAX:
            return ()
        try:
            return (json_tree(content.text),)
        except UnreadableError:
            return ()

    @property
    def is_too_large_for_json(self) -> bool:
        """Whether a filter on JSON cannot look into it."""
        value = self.source.value
        if value is None or len(value) > TREE_BYTES_MAX:
            return value is not None
        return has_many_values(value.decode(errors="replace"))

    def header_texts(self, name: str) -> list[str | None]:
        """The contents of the headers of that name."""
        return [text for one, text in self.headers if one == name]

    def headers_hex(self) -> list[str | None]:
        """The digits of each header of a whole row that is no UTF-8: who writes it again has them.

        None for the others, and for all where something is masked.
        """
        return [
            content.hex()
            if content is not None and not self._mask and not _is_text(content)
            else None
            for _, content in self.source.headers[:HEADERS_WHOLE_MAX]
        ]

    def row(
        self,
        *,
        characters_max: int | None = SHOWN_CHARACTERS_MAX,
        headers_max: int = _HEADERS_SHOWN_MAX,
    ) -> dict[str, Any]:
        """The record as plain data; texts are cut at `characters_max`, which the row says.

        Where texts are cut, there are at most `headers_max` headers.
        """
        source, batch = self.source, self.batch
        headers = self.headers
        shown = headers if characters_max is None else headers[:headers_max]
        return {
            "topic": source.topic,
            "partition": source.partition,
            "offset": source.offset,
            "timestamp": moment_text(source.timestamp_ms),
            "timestamp_ms": source.timestamp_ms,
            "timestamp_type": "append" if source.timestamp_type == LOG_APPEND_TIME else "create",
            **_side("key", self.key, characters_max),
            **_side("value", self.value, characters_max),
            "headers": [
                [_cut(name, characters_max), _cut(text, characters_max)] for name, text in shown
            ],
            "header_count": len(headers),
            "leader_epoch": source.leader_epoch,
            **_producer(batch),
            "is_masked": bool(self._mask),
        }


async def worked_on(view: RecordView, work: Callable[[RecordView], T], *, times: int = 1) -> T:
    """What `work` makes of a record, by a thread where that takes long; it looks `times` times.

    Nobody else may look at the record meanwhile: it remembers what was read.
    """
    if view.size_bytes * times <= _INLINE_BYTES_MAX:
        return work(view)
    return await asyncio.to_thread(work, view)


def shown_size(row: dict[str, Any]) -> int:
    """Roughly how many characters a row has."""
    size = 400 + len(row["key"] or "") + len(row["value"] or "")
    return size + sum(len(name) + len(text or "") + 8 for name, text in row["headers"])


def _producer(batch: BatchHeader | None) -> dict[str, Any]:
    if batch is None:
        return {"is_transactional": None, "producer_id": None, "producer_epoch": None}
    has_producer = batch.producer_id >= 0
    return {
        "is_transactional": batch.is_transactional,
        "producer_id": batch.producer_id if has_producer else None,
        "producer_epoch": batch.producer_epoch if has_producer else None,
    }


def _side(name: str, content: Content, characters_max: int | None) -> dict[str, Any]:
    text = _cut(content.text, characters_max)
    return {
        name: text,
        f"{name}_format": content.format.value,
        f"{name}_bytes": content.size_bytes,
        f"{name}_is_cut": text != content.text,
        f"{name}_schema_id": content.schema_id,
        f"{name}_problem": content.problem,
    }


def _is_text(content: bytes) -> bool:
    try:
        bytes(content).decode()
    except UnicodeDecodeError:
        return False
    return True


def _cut(text: str | None, characters_max: int | None) -> str | None:
    if text is None or characters_max is None or len(text) <= characters_max:
        return text
    return text[:characters_max]
