"""Every class that the codec can read and write whole: requests, responses, coordinator records."""

import importlib

from barnabas_protocol.api import INTERNAL, KNOWN
from barnabas_protocol.codec import request_class, response_class
from barnabas_protocol.schema import Message, MessageType

RECORD_MODULES = (
    "records_consumer_offsets",
    "records_share_group",
    "records_share_state",
    "records_streams_group",
    "records_transaction_state",
)


def record_classes() -> list[MessageType]:
    """Return the key and value classes of the coordinators' topics."""
    found: list[MessageType] = []
    for name in RECORD_MODULES:
        module = importlib.import_module(f"barnabas_protocol.messages.{name}")
        found += [
            kind
            for kind in vars(module).values()
            if isinstance(kind, MessageType) and kind is not Message and kind.__versions__
        ]
    return found


def all_classes() -> list[MessageType]:
    """Return all of them."""
    apis = [make(key) for key in {**KNOWN, **INTERNAL} for make in (request_class, response_class)]
    return [*apis, *record_classes()]


def versions(kind: MessageType) -> range:
    """Return the versions of a message, in order."""
    assert kind.__versions__ is not None
    first, last = kind.__versions__
    return range(first, last + 1)
