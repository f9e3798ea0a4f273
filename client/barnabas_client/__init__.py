"""An asyncio client for brokers that speak the Kafka protocol: producer, consumer, admin.

    async with Producer("localhost:9092") as producer:
        await producer.send("greetings", b"hello")

Names are imported when they are first used, so that a program pays only for the roles it plays.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas_client import errors as errors
    from barnabas_client.admin import Admin as Admin
    from barnabas_client.cluster.offsets import ConsumerGroupMetadata as ConsumerGroupMetadata
    from barnabas_client.cluster.offsets import OffsetAndMetadata as OffsetAndMetadata
    from barnabas_client.consumer import Consumer as Consumer
    from barnabas_client.consumer import ConsumerRecord as ConsumerRecord
    from barnabas_client.consumer import RebalanceListener as RebalanceListener
    from barnabas_client.errors import BarnabasError as BarnabasError
    from barnabas_client.errors import RetriableError as RetriableError
    from barnabas_client.producer import Producer as Producer
    from barnabas_client.producer import RecordMetadata as RecordMetadata
    from barnabas_protocol.ids import TopicPartition as TopicPartition

_MODULES: Final = {
    "Admin": "barnabas_client.admin",
    "BarnabasError": "barnabas_client.errors",
    "Consumer": "barnabas_client.consumer",
    "ConsumerGroupMetadata": "barnabas_client.cluster.offsets",
    "ConsumerRecord": "barnabas_client.consumer",
    "OffsetAndMetadata": "barnabas_client.cluster.offsets",
    "Producer": "barnabas_client.producer",
    "RebalanceListener": "barnabas_client.consumer",
    "RecordMetadata": "barnabas_client.producer",
    "RetriableError": "barnabas_client.errors",
    "TopicPartition": "barnabas_protocol.ids",
}

__all__ = [
    "Admin",
    "BarnabasError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "Producer",
    "RebalanceListener",
    "RecordMetadata",
    "RetriableError",
    "TopicPartition",
    "errors",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for (PEP 562)."""
    if name == "errors":
        return importlib.import_module("barnabas_client.errors")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names that can be imported."""
    return sorted(__all__)
