"""Interceptors: objects that see every record that is sent and every acknowledgement.

Both methods are optional. Invariants (PRD-10): interceptors are called in the order in which they
are configured, each with what the one before returned; what they raise is logged and changes
nothing; topic and partition of a record cannot be changed; acknowledgements come before the
callbacks of the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from barnabas_client.producer.delivery import Delivery, RecordMetadata
from barnabas_client.producer.record_encoding import Headers

_log = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """A record to send, before serialization."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class ProducerInterceptor(Protocol):
    """What the setting `interceptors` takes; leave out what is not needed."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """See a record, and return it or one to send in its place."""
        ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """See the result of a record; exactly one of the two is given."""
        ...


class ProducerInterceptors:
    """All interceptors of a producer."""

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self.exist = bool(interceptors)
        self._on_send = [i.on_send for i in interceptors if hasattr(i, "on_send")]
        self._on_acknowledgement = [
            i.on_acknowledgement for i in interceptors if hasattr(i, "on_acknowledgement")
        ]

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send: what the last interceptor returned."""
        for call in self._on_send:
            try:
                changed = call(record)
                if (changed.topic, changed.partition) != (record.topic, record.partition):
                    raise ValueError("an interceptor must not change topic or partition")
            except Exception:
                _log.exception("the interceptor %r failed and is skipped for this record", call)
            else:
                record = changed
        return record

    def watch(self, delivery: Delivery) -> None:
        """Call `on_acknowledgement` when the record is acknowledged or fails."""
        if self._on_acknowledgement:
            delivery.add_done_callback(self._acknowledged)

    def refused(self, error: BaseException) -> None:
        """Call `on_acknowledgement` for a record that `send` refused."""
        self._call_acknowledgement(None, error)

    def _acknowledged(self, delivery: Delivery) -> None:
        group, position = delivery[0].resolve(delivery[1])
        if not group.is_done:
            # The caller has cancelled the delivery; the record is sent all the same.
            group.add_waiter(position, self._acknowledged, delivery)
        elif group.error is not None:
            self._call_acknowledgement(None, group.error)
        else:
            self._call_acknowledgement(group.metadata(position), None)

    def _call_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        for call in self._on_acknowledgement:
            try:
                call(metadata, error)
            except Exception:
                _log.exception("the interceptor %r failed", call)
