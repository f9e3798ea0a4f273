"""What the settings for serializers and deserializers take besides plain functions.

Not here: calling them (`producer/serializers.py`, `consumer/deserialization.py`).
Source: Kafka's Serializer and Deserializer. Invariant, in both directions: a null key or value
stays null, without asking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Serializer(Protocol):
    """Makes bytes of a key or value where topic or headers matter; else a function will do."""

    def serialize(
        self, topic: str, value: Any, headers: Sequence[tuple[str, bytes | None]], /
    ) -> bytes | None:
        """The bytes, or None for a null."""
        ...


class Deserializer(Protocol):
    """Makes an object of a key's or value's bytes where topic or headers matter."""

    def deserialize(
        self, topic: str, data: bytes, headers: Sequence[tuple[str, bytes | None]], /
    ) -> Any:
        """The object that the program gets."""
        ...
