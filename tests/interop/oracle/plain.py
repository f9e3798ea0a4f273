"""Messages as plain dictionaries: requests are written as them, answers are compared as them.

What two brokers cannot have in common (ids they drew, ports, the time of day, texts that explain a
setting) is replaced by a symbol; everything else stays as it came over the wire.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.schema import Message, MessageType

Plain = Any

NOW_TOLERANCE_MS = 120_000
_ENTRIES_SHOWN = 8
_UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME_TEXT = re.compile(r"\b1[0-9]{12}\b")
_TIME_FIELDS = {"timestamp", "log_append_time_ms"}
_REPLACED = {"port": "<port>", "cluster_id": "<cluster>", "log_dir": "<directory>"}
_LEFT_OUT = {"throttle_time_ms", "finalized_features_epoch"}
_POSITIVE = {"session_id", "producer_id", "usable_bytes", "total_bytes"}


def build(kind: MessageType, values: Mapping[str, Plain]) -> Any:
    """A message from a dictionary; structs inside are dictionaries or lists of them."""
    ready: dict[str, Plain] = {}
    for field in kind.__fields__:
        if field.name not in values:
            continue
        value = values[field.name]
        if isinstance(field.item, MessageType) and value is not None:
            if field.kind == "array":
                value = [build(field.item, each) for each in value]
            else:
                value = build(field.item, value)
        ready[field.name] = value
    unknown = set(values) - set(ready)
    if unknown:
        raise TypeError(f"{kind.__name__} has no {sorted(unknown)}")
    return kind(**ready)


class Symbols:
    """What one broker drew, and the symbols by which it is compared."""

    def __init__(self, prefix: str, now_ms: int) -> None:
        self._prefix = prefix
        self._now_ms = now_ms
        self._known: dict[Any, str] = {}

    def learn(self, value: Any, symbol: str) -> None:
        """From now on the value is shown as the symbol."""
        self._known[value] = f"<{symbol}>"

    def plain(self, message: Message) -> dict[str, Plain]:
        """The message as a dictionary that another broker's can equal."""
        shown: dict[str, Plain] = {}
        for field in message.__fields__:
            if field.name not in _LEFT_OUT:
                shown[field.name] = self._value(
                    field.name, field.kind, getattr(message, field.name)
                )
        return shown

    def _value(self, name: str, kind: str, value: Any) -> Plain:
        if isinstance(value, Message):
            return self.plain(value)
        if name == "records":
            return self._records(value)
        if isinstance(value, list):
            return [self._value(name, "", each) for each in value]
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(kind, bytes(value))
        if isinstance(value, str):
            return self._text(name, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(name, value)
        return value

    def _bytes(self, kind: str, value: bytes) -> Plain:
        if kind == "uuid" and value != ZERO_UUID:
            return self._known.get(value, "<uuid>")
        return value.hex()

    def _text(self, name: str, value: str) -> str:
        if name == "documentation":
            return "<text>"
        if name in _REPLACED and value:
            return _REPLACED[name]
        for known, symbol in self._known.items():
            if isinstance(known, str):
                value = value.replace(known, symbol)
        value = _UUID_TEXT.sub("<uuid>", value).replace(self._prefix, "")
        return _TIME_TEXT.sub("<time>", value)

    def _number(self, name: str, value: int) -> Plain:
        if name in _TIME_FIELDS and abs(value - self._now_ms) < NOW_TOLERANCE_MS:
            return "<now>"
        if name in _POSITIVE and value > 0:
            return f"<{name}>"
        return _REPLACED.get(name, value) if value > 0 else value

    def _records(self, value: Any) -> Plain:
        if value is None:
            return None
        content = b"".join(bytes(part) for part in (value if isinstance(value, list) else [value]))
        shown: list[Plain] = []
        end = 0
        try:
            for position, header in iterate_headers(content):
                end = position + header.size_bytes
                fields = header._asdict()
                if header.is_log_append_time:
                    fields.update(crc="<crc>", max_timestamp="<now>")
                body = hashlib.sha256(content[position + 61 : end]).hexdigest()[:8]
                shown.append({**fields, "body": body})
        except ParseError as error:
            shown.append(f"<{error.reason}>")
        if end < len(content):
            shown.append(f"<{len(content) - end} bytes of a cut batch>")
        return shown


def sort_key(value: Plain) -> str:
    """Orders what has no order of its own: answers about several topics, members, settings."""
    return repr(value)


def in_order(value: Plain) -> Plain:
    """The same tree with its lists of structs in one order."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        items = [in_order(each) for each in value]
        is_sortable = items and all(isinstance(each, dict) and "body" not in each for each in items)
        return sorted(items, key=sort_key) if is_sortable else items
    return value


def differences(left: Plain, right: Plain, path: str = "") -> list[tuple[str, Plain, Plain]]:
    """Where two trees differ: path, left, right."""
    if isinstance(left, dict) and isinstance(right, dict):
        found = []
        for key in {**left, **right}:
            found += differences(
                left.get(key, "<absent>"), right.get(key, "<absent>"), f"{path}.{key}".strip(".")
            )
        return found
    if isinstance(left, list) and isinstance(right, list):
        found = []
        named = _by_name(left), _by_name(right)
        if named[0] is not None and named[1] is not None:
            return differences(named[0], named[1], path)
        if bool(left) != bool(right) or abs(len(left) - len(right)) > _ENTRIES_SHOWN:
            return [(path, _short(left), _short(right))]
        for index in range(max(len(left), len(right))):
            sides = [each[index] if index < len(each) else "<absent>" for each in (left, right)]
            found += differences(sides[0], sides[1], f"{path}[{index}]")
        return found
    return [] if left == right else [(path, left, right)]


def _short(items: list[Plain]) -> Plain:
    return items if len(items) < 2 else f"<{len(items)} entries, first {items[0]}>"


def _by_name(items: list[Plain]) -> dict[str, Plain] | None:
    """Settings, topics and groups by their names, so that one more does not shift the others."""
    for key in ("name", "topic", "group_id", "resource_name", "api_key"):
        if items and all(isinstance(each, dict) and each.get(key) is not None for each in items):
            named = {f"[{each[key]}]": each for each in items}
            if len(named) == len(items):
                return named
    return None
