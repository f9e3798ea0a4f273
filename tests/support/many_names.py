"""Requests of any API that name very many things, each once: what a hostile client would send."""

from __future__ import annotations

from typing import Any

from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.schema import Field, Message, MessageType


class ManyNames:
    """Builds messages whose arrays are full."""

    def __init__(self) -> None:
        self._count = 0

    def request(self, key: ApiKey, version: int, outer: int, inner: int) -> Any:
        """A request with so many elements in its arrays, and so many in each of those."""
        return self.message(codec.request_class(key), version, outer, inner)

    def message(self, kind: MessageType, version: int, count: int, inner: int) -> Any:
        """A message with so many elements in its arrays."""
        message: Message = kind()
        for field in kind.__fields__:
            if not field.exists_in(version) or field.tag is not None:
                continue
            if field.kind == "array":
                setattr(message, field.name, self._array(field, version, count, inner))
            elif field.kind == "string":
                setattr(message, field.name, self._name())
        return message

    def _array(self, field: Field, version: int, count: int, inner: int) -> list[Any]:
        item = field.item
        if isinstance(item, MessageType):
            return [self.message(item, version, inner, 1) for _ in range(count)]
        assert item is not None
        if item.kind == "string":
            return [self._name() for _ in range(count)]
        return list(range(count)) if item.kind.startswith("int") else []

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count:x}"
