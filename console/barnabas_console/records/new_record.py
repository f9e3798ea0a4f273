"""A record that somebody wants to write: the form's fields, checked, as bytes. Pure.

    {"key": "alice", "key_format": "text", "value": "{}", "value_format": "json",
     "headers": [["trace", "x"], ["none", null], ["id", "00ff", "hex"]], "partition": 3,
     "timestamp_ms": 1795284278811}

Formats: `null`, `text`, `json` (checked, and written as it stands), `hex`, `base64` (a file); of
headers text, null and hex.

Source: CON-116. Invariant: what is written is what was typed, byte by byte.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas_console.records.json_text import has_many_values, parse_json
from barnabas_protocol.records.record import Header

FORMATS: Final = ("null", "text", "json", "hex", "base64")
SIZE_BYTES_MAX: Final = 1024 * 1024
HEADERS_MAX: Final = 100
_TIMESTAMP_MAX: Final = (1 << 63) - 1
_PARTITION_MAX: Final = (1 << 31) - 1


class RecordFormError(ValueError):
    """A field of the form cannot be used; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """What is to be written; None leaves it to the producer."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def read_form(form: Mapping[str, Any]) -> NewRecord:
    """Read the fields. Raises: RecordFormError."""
    record = NewRecord(
        key=_content(form, "key"),
        value=_content(form, "value"),
        headers=_headers(form.get("headers") or []),
        partition=_whole(form, "partition", _PARTITION_MAX),
        timestamp_ms=_whole(form, "timestamp_ms", _TIMESTAMP_MAX),
    )
    size = len(record.key or b"") + len(record.value or b"")
    size += sum(len(name.encode()) + len(content or b"") for name, content in record.headers)
    if size > SIZE_BYTES_MAX:
        raise RecordFormError(f"the record has {size} bytes: at most {SIZE_BYTES_MAX} go from here")
    return record


def _content(form: Mapping[str, Any], name: str) -> bytes | None:
    written = form.get(name)
    how = form.get(f"{name}_format", "null" if written is None else "text")
    if how not in FORMATS:
        raise RecordFormError(f"{name}_format is one of {', '.join(FORMATS)}")
    if how == "null":
        return None
    if not isinstance(written, str):
        raise RecordFormError(f"{name} must be text")
    try:
        return _bytes(written, how)
    except (ValueError, UnicodeEncodeError) as error:
        raise RecordFormError(f"{name}: {error}") from None


def _bytes(written: str, how: str) -> bytes:
    match how:
        case "json":
            if has_many_values(written):
                raise ValueError("so many values are not checked here: choose text")
            parse_json(written)
        case "hex":
            try:
                return bytes.fromhex(written)
            except ValueError:
                raise ValueError("two hexadecimal digits a byte, such as 00ff") from None
        case "base64":
            try:
                return base64.b64decode(written, validate=True)
            except binascii.Error as error:
                raise ValueError(f"no base64: {error}") from None
    return written.encode()


def _headers(written: Any) -> tuple[Header, ...]:
    if not isinstance(written, list) or len(written) > HEADERS_MAX:
        raise RecordFormError(f"headers are a list of at most {HEADERS_MAX} [name, text]")
    headers: list[Header] = []
    for one in written:
        match one:
            case [str(name), None | str() as text]:
                try:
                    name.encode()
                    headers.append((name, None if text is None else text.encode()))
                except UnicodeEncodeError:
                    raise RecordFormError("a header has half a pair of surrogates") from None
            case [str(name), str(digits), "hex"]:
                headers.append((name, _header_bytes(digits)))
            case _:
                raise RecordFormError("a header is [name, text], [name, null] or [name, …, 'hex']")
    return tuple(headers)


def _header_bytes(digits: str) -> bytes:
    try:
        return _bytes(digits, "hex")
    except ValueError as error:
        raise RecordFormError(f"headers: {error}") from None


def _whole(form: Mapping[str, Any], name: str, maximum: int) -> int | None:
    value = form.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
        raise RecordFormError(f"{name} is a whole number from 0 to {maximum}")
    return value
