"""An asyncio client for brokers that speak the Kafka protocol: producer, consumers, admin.

    async with Producer("localhost:9092") as producer:
        await producer.send("greetings", b"hello")

All that a program names, also in type hints, can be imported from here; what `Admin` takes and
gives is in `barnabas_client.admin`, what an assignor of one's own is made of in
`barnabas_client.consumer.assignors`.

Names are imported when they are first used, so that a program pays only for the roles it plays.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas_client import errors as errors
    from barnabas_client.admin import Admin as Admin
    from barnabas_client.cluster import ConsumerGroupMetadata as ConsumerGroupMetadata
    from barnabas_client.cluster import OffsetAndMetadata as OffsetAndMetadata
    from barnabas_client.cluster import PartitionMetadata as PartitionMetadata
    from barnabas_client.config import AdminOptions as AdminOptions
    from barnabas_client.config import ClientOptions as ClientOptions
    from barnabas_client.config import ConsumerOptions as ConsumerOptions
    from barnabas_client.config import Deserializer as Deserializer
    from barnabas_client.config import ProducerOptions as ProducerOptions
    from barnabas_client.config import Serializer as Serializer
    from barnabas_client.config import ShareConsumerOptions as ShareConsumerOptions
    from barnabas_client.config import settings_from_file as settings_from_file
    from barnabas_client.consumer import CommitCallback as CommitCallback
    from barnabas_client.consumer import Consumer as Consumer
    from barnabas_client.consumer import ConsumerInterceptor as ConsumerInterceptor
    from barnabas_client.consumer import ConsumerRecord as ConsumerRecord
    from barnabas_client.consumer import FetchedBatch as FetchedBatch
    from barnabas_client.consumer import OffsetAndTimestamp as OffsetAndTimestamp
    from barnabas_client.consumer import RebalanceListener as RebalanceListener
    from barnabas_client.consumer import RecordColumns as RecordColumns
    from barnabas_client.consumer.assignors import Assignor as Assignor
    from barnabas_client.errors import AbortableError as AbortableError
    from barnabas_client.errors import AlreadyExistsError as AlreadyExistsError
    from barnabas_client.errors import AuthenticationError as AuthenticationError
    from barnabas_client.errors import AuthorizationError as AuthorizationError
    from barnabas_client.errors import BarnabasError as BarnabasError
    from barnabas_client.errors import BrokerUnreachableError as BrokerUnreachableError
    from barnabas_client.errors import BufferFullError as BufferFullError
    from barnabas_client.errors import ClientBrokenError as ClientBrokenError
    from barnabas_client.errors import ClosedError as ClosedError
    from barnabas_client.errors import CommitFailedError as CommitFailedError
    from barnabas_client.errors import ConfigurationError as ConfigurationError
    from barnabas_client.errors import CoordinatorMovedError as CoordinatorMovedError
    from barnabas_client.errors import CorruptRecordError as CorruptRecordError
    from barnabas_client.errors import DisconnectedError as DisconnectedError
    from barnabas_client.errors import FencedError as FencedError
    from barnabas_client.errors import IllegalStateError as IllegalStateError
    from barnabas_client.errors import LogTruncatedError as LogTruncatedError
    from barnabas_client.errors import MembershipLostError as MembershipLostError
    from barnabas_client.errors import NoOffsetError as NoOffsetError
    from barnabas_client.errors import NotFoundError as NotFoundError
    from barnabas_client.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from barnabas_client.errors import RecordTooLargeError as RecordTooLargeError
    from barnabas_client.errors import RejectedError as RejectedError
    from barnabas_client.errors import RetriableError as RetriableError
    from barnabas_client.errors import SeekRequiredError as SeekRequiredError
    from barnabas_client.errors import SerializationError as SerializationError
    from barnabas_client.errors import StaleMetadataError as StaleMetadataError
    from barnabas_client.errors import TimedOutError as TimedOutError
    from barnabas_client.errors import UnsupportedError as UnsupportedError
    from barnabas_client.errors import UsageError as UsageError
    from barnabas_client.producer import Delivery as Delivery
    from barnabas_client.producer import Partitioner as Partitioner
    from barnabas_client.producer import Producer as Producer
    from barnabas_client.producer import ProducerIdentity as ProducerIdentity
    from barnabas_client.producer import ProducerInterceptor as ProducerInterceptor
    from barnabas_client.producer import ProducerRecord as ProducerRecord
    from barnabas_client.producer import RecordMetadata as RecordMetadata
    from barnabas_client.producer import RoundRobinPartitioner as RoundRobinPartitioner
    from barnabas_client.share import AcknowledgedRange as AcknowledgedRange
    from barnabas_client.share import AcknowledgementCallback as AcknowledgementCallback
    from barnabas_client.share import AcknowledgementResult as AcknowledgementResult
    from barnabas_client.share import AcknowledgeType as AcknowledgeType
    from barnabas_client.share import ShareConsumer as ShareConsumer
    from barnabas_client.share import ShareRecord as ShareRecord
    from barnabas_protocol.connection.sasl import OAuthBearerSaslClient as OAuthBearerSaslClient
    from barnabas_protocol.connection.sasl import SaslClient as SaslClient
    from barnabas_protocol.ids import TopicPartition as TopicPartition

_NAMES_BY_MODULE: Final = {
    "barnabas_client.admin": "Admin",
    "barnabas_client.cluster": "ConsumerGroupMetadata OffsetAndMetadata PartitionMetadata",
    "barnabas_client.config": (
        "AdminOptions ClientOptions ConsumerOptions Deserializer ProducerOptions Serializer "
        "ShareConsumerOptions settings_from_file"
    ),
    "barnabas_client.consumer": (
        "CommitCallback Consumer ConsumerInterceptor ConsumerRecord FetchedBatch "
        "OffsetAndTimestamp RebalanceListener RecordColumns"
    ),
    "barnabas_client.consumer.assignors": "Assignor",
    "barnabas_client.errors": (
        "AbortableError AlreadyExistsError AuthenticationError AuthorizationError "
        "BarnabasError BrokerUnreachableError BufferFullError ClientBrokenError "
        "ClosedError CommitFailedError ConfigurationError CoordinatorMovedError "
        "CorruptRecordError DisconnectedError FencedError IllegalStateError "
        "LogTruncatedError MembershipLostError NoOffsetError NotFoundError "
        "OffsetOutOfRangeError RecordTooLargeError RejectedError RetriableError "
        "SeekRequiredError SerializationError StaleMetadataError TimedOutError "
        "UnsupportedError UsageError"
    ),
    "barnabas_client.producer": (
        "Delivery Partitioner Producer ProducerIdentity ProducerInterceptor ProducerRecord "
        "RecordMetadata RoundRobinPartitioner"
    ),
    "barnabas_client.share": (
        "AcknowledgedRange AcknowledgementCallback AcknowledgementResult AcknowledgeType "
        "ShareConsumer ShareRecord"
    ),
    "barnabas_protocol.connection.sasl": "OAuthBearerSaslClient SaslClient",
    "barnabas_protocol.ids": "TopicPartition",
}
_MODULE_BY_NAME: Final = {
    name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()
}


def __getattr__(name: str) -> Any:
    """Import what is asked for (PEP 562)."""
    if name == "errors":
        return importlib.import_module("barnabas_client.errors")
    module = _MODULE_BY_NAME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names that can be imported."""
    return sorted([*_MODULE_BY_NAME, "errors"])
