"""How `barnabas consume` writes a record: fixed formats and templates. Pure: a record becomes
bytes.

    value      the value's own bytes
    key-value  key, a tab, value
    json       one JSON object; bytes that are no UTF-8 as base64 in `key_base64`, `value_base64`
    hex        offset, then key and value in hexadecimal digits
    anything with braces is a template: '{partition}:{offset} {key} {value}'

Invariants: `value` and `key-value` never change a byte of what was stored; a null key or value is
shown as the text that was chosen for it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from string import Formatter
from typing import Any

from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.facts.moments import moment_text
from barnabas_protocol.settings.suggestions import hint

NAMES = ("value", "key-value", "json", "hex")
TEMPLATE_FIELDS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_ms",
    "leader_epoch",
    "key",
    "value",
    "headers",
    "key_bytes",
    "value_bytes",
)
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\0": "\0", "\\r": "\r"}

Render = Callable[[ConsumerRecord], bytes]


def renderer(
    style: str,
    *,
    with_keys: bool = False,
    with_headers: bool = False,
    with_position: bool = False,
    separator: str = "\t",
    null: str = "null",
) -> Render:
    """A function from a record to its bytes, without the newline behind it.

    Raises: ValueError for a format or a template field that is not known.
    """
    gap, nothing = _unescaped(separator).encode(), null.encode()

    def written(data: bytes | None) -> bytes:
        return nothing if data is None else data

    def plain(record: ConsumerRecord) -> bytes:
        parts = []
        if with_position:
            place = f"{record.topic}-{record.partition}@{record.offset}"
            parts += [place.encode(), (moment_text(record.timestamp_ms) or "-").encode()]
        if with_headers:
            parts.append(headers_text(record).encode() or b"-")
        if with_keys or style == "key-value":
            parts.append(written(record.key))
        parts.append(written(record.value))
        return gap.join(parts)

    if style in ("value", "key-value"):
        return plain
    if style == "json":
        return lambda record: json.dumps(as_data(record), ensure_ascii=False).encode()
    if style == "hex":
        return lambda record: (
            f"{record.partition}:{record.offset} {_hex(record.key)} {_hex(record.value)}".encode()
        )
    if "{" in style:
        return _template(_unescaped(style), null)
    raise ValueError(f"no such format '{style}'.{hint(style, NAMES)}")


def as_data(record: ConsumerRecord) -> dict[str, Any]:
    """The record as plain data."""
    data: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": moment_text(record.timestamp_ms),
        "timestamp_ms": record.timestamp_ms,
    }
    for name, content in (("key", record.key), ("value", record.value)):
        try:
            data[name] = None if content is None else content.decode("utf-8")
        except UnicodeDecodeError:
            data[f"{name}_base64"] = base64.b64encode(content).decode()
    data["headers"] = [[name, text(value, None)] for name, value in record.headers]
    return data


def headers_text(record: ConsumerRecord) -> str:
    """The headers as name=value, separated by commas."""
    return ",".join(f"{name}={text(value, 'null')}" for name, value in record.headers)


def text(data: bytes | None, null: str | None) -> str | None:
    """Bytes as text; those that are no UTF-8 as escapes."""
    return null if data is None else bytes(data).decode("utf-8", "backslashreplace")


def _template(template: str, null: str) -> Render:
    try:
        fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise ValueError(f"the template '{template}' is wrong: {error}") from None
    for field in fields:
        if field not in TEMPLATE_FIELDS:
            raise ValueError(f"no such field '{field}'.{hint(field, TEMPLATE_FIELDS)}")

    def render(record: ConsumerRecord) -> bytes:
        values = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": moment_text(record.timestamp_ms) or "-",
            "timestamp_ms": record.timestamp_ms,
            "leader_epoch": record.leader_epoch,
            "key": text(record.key, null),
            "value": text(record.value, null),
            "headers": headers_text(record),
            "key_bytes": len(record.key or b""),
            "value_bytes": len(record.value or b""),
        }
        return template.format_map(values).encode("utf-8", "surrogateescape")

    return render


def _hex(data: bytes | None) -> str:
    return "null" if data is None else bytes(data).hex() or "-"


def _unescaped(template: str) -> str:
    for written, meant in _ESCAPES.items():
        template = template.replace(written, meant)
    return template
