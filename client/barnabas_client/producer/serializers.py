"""Keys and values to bytes: the settings `key_serializer` and `value_serializer`.

A serializer is a function of the object alone, or an object with a method
`serialize(topic, value, headers)`. Either returns bytes, or None for a null; None itself is a null
without a call. Without a serializer, bytes and text are taken as they are.

Invariants: what enters a batch is `bytes`, so that nothing can change it afterwards; whatever a
serializer raises becomes a SerializationError that names classes and topic (PRD-2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from barnabas_client.errors import BarnabasError, SerializationError, UsageError
from barnabas_client.producer.record_encoding import Headers

Serialize = Callable[[str, Any, Headers], bytes | None]


def create_serializer(role: str, given: Any) -> Serialize:
    """The function for one of the two settings; `role` is "key" or "value"."""
    if given is None:
        return lambda topic, value, headers: plain_bytes(role, topic, value)
    method = getattr(given, "serialize", None)

    def serialize(topic: str, value: Any, headers: Headers) -> bytes | None:
        try:
            data = given(value) if method is None else method(topic, value, headers)
        except BarnabasError:
            raise
        except Exception as error:
            raise SerializationError(
                f"the {role} serializer {_name(given)} failed on a {type(value).__name__} for "
                f"topic {topic}: {error}"
            ) from error
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise SerializationError(
            f"the {role} serializer {_name(given)} made a {type(data).__name__} of a "
            f"{type(value).__name__} for topic {topic}, not bytes"
        )

    return serialize


def plain_bytes(role: str, topic: str, value: Any) -> bytes | None:
    """Bytes as they are, text in UTF-8, None for a null.

    Raises: SerializationError for anything else.
    """
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return _utf8(f"a {role} for topic {topic}", value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise SerializationError(
        f"a {role} for topic {topic} is a {type(value).__name__}: give bytes or text, or set "
        f"{role}_serializer"
    )


def checked_headers(headers: Iterable[Any]) -> Headers:
    """The headers as they are encoded; a caller's list may change afterwards.

    Raises: UsageError for anything but pairs of text and bytes, text or None.
    """
    checked: list[tuple[str, bytes | None]] = []
    for header in headers:
        try:
            name, content = header
        except (TypeError, ValueError):
            raise UsageError(f"a header is (name, bytes), not {header!r}") from None
        if isinstance(content, str):
            content = _utf8(f"the header {name!r}", content)
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise UsageError(f"a header is (text, bytes or None), not {header!r}")
        _utf8("the name of a header", name)
        checked.append((name, content))
    return checked


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(f"{what} is text that UTF-8 does not have: {error}") from error


def _name(serializer: Any) -> str:
    return getattr(serializer, "__qualname__", None) or type(serializer).__name__
