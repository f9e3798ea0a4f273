"""Interceptors: objects that see the records a consumer returns, and the offsets it commits.

Each method is optional. Invariants: interceptors are called in the order in which they are
configured, each with what the one before returned; what they raise is logged and changes nothing.

Source: Kafka's ConsumerInterceptor.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.consumer.records import ConsumerRecord
from barnabas_protocol.ids import TopicPartition

_log = logging.getLogger(__name__)


class ConsumerInterceptor(Protocol):
    """What the setting `interceptors` of a consumer takes; leave out what is not needed."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """See records, and return those that the program gets."""
        ...

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """See committed offsets."""
        ...


class ConsumerInterceptors:
    """All interceptors of a consumer."""

    __slots__ = ("_interceptors",)

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._interceptors)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records that the program gets; an interceptor's output is the next one's input."""
        for interceptor in self._interceptors:
            method = getattr(interceptor, "on_consume", None)
            if method is None:
                continue
            try:
                records = list(method(records))
            except Exception:
                _log.exception("%s.on_consume failed", type(interceptor).__name__)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Call `on_commit` with committed offsets."""
        for interceptor in self._interceptors:
            method = getattr(interceptor, "on_commit", None)
            if method is None:
                continue
            try:
                method(offsets)
            except Exception:
                _log.exception("%s.on_commit failed", type(interceptor).__name__)
