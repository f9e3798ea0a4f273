"""How the keys and values of a topic are read: guessed, or as somebody chose.

A rule file maps topics to formats and schemas by globs; the first rule that fits counts:

    - topics: "orders*"
      key: text
      value: {avro: order.avsc}
    - topics: shop
      value: {protobuf: shop.desc, message: shop.Order}

A schema registry's frame (a zero byte, the schema's id in four) is taken off before a schema of the
file reads the rest; its id is shown.

Not here: the formats (`content.py` and its neighbours), masks (`masking.py`).

Source: CON-114. Invariant: reading never fails: what is not of the chosen format is shown in
hexadecimal digits with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from barnabas_client.facts.internal_records import describe_record, is_internal
from barnabas_console.records.avro_content import avro_decoder
from barnabas_console.records.content import (
    NULL,
    TREE_BYTES_MAX,
    Content,
    Decode,
    Format,
    UnreadableError,
    as_double,
    as_hex,
    as_json,
    as_number,
    as_text,
    as_tree,
)
from barnabas_console.records.message_pack import as_message_pack, looks_like_message_pack
from barnabas_console.records.protobuf_content import behind_message_indexes, protobuf_decoder
from barnabas_protocol.records.record import Record
from barnabas_protocol.settings.suggestions import did_you_mean

AUTO: Final = "auto"
FRAME_BYTES: Final = 5
RULE_FILE_BYTES_MAX: Final = 1024 * 1024
SCHEMA_FILE_BYTES_MAX: Final = 16 * 1024 * 1024
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NUMBER_BYTES: Final = (4, 8)
_PLAIN: Final[Mapping[str, Decode]] = {
    "json": as_json,
    "text": as_text,
    "hex": as_hex,
    "number": as_number,
    "double": as_double,
    "msgpack": as_message_pack,
}
CHOICES: Final = (AUTO, *_PLAIN)
"""What a viewer may choose; schemas come from the file alone."""


class RulesError(ValueError):
    """A rule file cannot be used; the message names the place in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRule:
    """How keys or values of some topics are read."""

    decode: Decode
    name: str
    has_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingRule:
    """One rule of the file."""

    topics: str
    key: SideRule | None = None
    value: SideRule | None = None


class TopicDecoding:
    """How one topic is read, by one viewer's choice."""

    def __init__(self, topic: str, key: SideRule | None, value: SideRule | None) -> None:
        """`None` is a guess for each record."""
        self._topic = topic
        self._is_internal = is_internal(topic) and key is None and value is None
        self._key = _decode_or_hex(_guess if key is None else key.decode)
        self._value = _decode_or_hex(_guess if value is None else value.decode)
        #: Whether what stands in the bytes of text stands in the text that is shown, too.
        self.shows_stored_text = not self._is_internal and all(
            side is None or side.name in ("json", "text") for side in (key, value)
        )

    def key(self, record: Record) -> Content:
        """Read the key."""
        if record.key is None:
            return NULL
        if self._is_internal:
            return self._internal(record, is_key=True)
        return self._key(record.key)

    def value(self, record: Record) -> Content:
        """Read the value."""
        if record.value is None:
            return NULL
        if self._is_internal:
            return self._internal(record, is_key=False)
        return self._value(record.value)

    def _internal(self, record: Record, *, is_key: bool) -> Content:
        data = (record.key if is_key else record.value) or b""
        if len(data) > TREE_BYTES_MAX:
            return as_hex(data, "too large to be taken apart")
        told = describe_record(self._topic, record)
        if "value" not in told:
            return as_hex(data, told["type"])
        shown = {"type": told["type"], **told["key"]} if is_key else told["value"]
        return as_tree(shown, Format.INTERNAL, len(data))


class DecodingRules:
    """What the file says of topics."""

    def __init__(self, rules: Sequence[DecodingRule] = ()) -> None:
        self._rules = tuple(rules)

    def for_topic(self, topic: str, key: str = AUTO, value: str = AUTO) -> TopicDecoding:
        """Return how a topic is read by the formats that a viewer has chosen.

        Raises: ValueError for a format that there is not.
        """
        rule = next((one for one in self._rules if fnmatchcase(topic, one.topics)), None)
        return TopicDecoding(
            topic,
            _chosen(key, None if rule is None else rule.key),
            _chosen(value, None if rule is None else rule.value),
        )


def read_decoding_rules(path: Path) -> DecodingRules:
    """Read the file and the schemas that it names, relative to it. Raises: RulesError, OSError."""
    rules = []
    for number, entry in enumerate(rule_entries(path, {"topics", "key", "value"}), 1):
        sides = {}
        for side in ("key", "value"):
            if side in entry:
                try:
                    sides[side] = _side_rule(entry[side], path.parent)
                except (ValueError, OSError) as error:
                    raise RulesError(f"{path}: rule {number}, {side}: {error}") from None
        rules.append(DecodingRule(topics=entry["topics"], **sides))
    return DecodingRules(rules)


def rule_entries(path: Path, known: set[str]) -> list[dict[str, Any]]:
    """The rules of a file: a list of mappings with these keys, `topics` always among them.

    Raises: RulesError, OSError.
    """
    import yaml  # a console without rules starts without it

    try:
        entries = yaml.safe_load(_read(path, RULE_FILE_BYTES_MAX))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RulesError(f"{path}: {error}") from None
    if not isinstance(entries, list):
        raise RulesError(f"{path}: a list of rules is expected")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("topics"), str):
            raise RulesError(f"{path}: rule {number} has no topics, such as 'topics: orders*'")
        for name in entry.keys() - known:
            hint = did_you_mean(str(name), known)
            raise RulesError(f"{path}: rule {number}: unknown key {name}{hint}")
    return entries


def _side_rule(written: Any, folder: Path) -> SideRule:
    match written:
        case str() if written in _PLAIN:
            return SideRule(decode=_PLAIN[written], name=written)
        case {"avro": str(name), **rest} if not rest:
            text = _read(folder / name, SCHEMA_FILE_BYTES_MAX).decode()
            return _with_schema("avro", _unframed(avro_decoder(text)))
        case {"protobuf": str(file), **rest} if not rest.keys() - {"message"}:
            descriptors = _read(folder / file, SCHEMA_FILE_BYTES_MAX)
            message = rest.get("message")
            decode = protobuf_decoder(descriptors, None if message is None else str(message))
            return _with_schema("protobuf", _unframed(decode, behind_message_indexes))
    raise ValueError(
        f"{written!r} is none of {', '.join(_PLAIN)}, {{avro: FILE}},"
        " {protobuf: FILE, message: NAME}"
    )


def _with_schema(name: str, decode: Decode) -> SideRule:
    return SideRule(decode=decode, name=name, has_schema=True)


def _read(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise ValueError(f"{path} is larger than {bytes_max // 1024} KiB")
    return data


def _chosen(choice: str, rule: SideRule | None) -> SideRule | None:
    if choice == AUTO:
        return rule
    if choice in _PLAIN:
        return SideRule(decode=_PLAIN[choice], name=choice)
    raise ValueError(f"no format '{choice}': one of {', '.join(CHOICES)}")


def _unframed(decode: Decode, behind_frame: Callable[[bytes], bytes] | None = None) -> Decode:
    """The same for values with a registry's frame, whose rest is tried first, and without."""

    def unframed(data: bytes) -> Content:
        schema_id = _schema_id(data)
        if schema_id is not None:
            rest = data[FRAME_BYTES:]
            try:
                content = decode(rest if behind_frame is None else behind_frame(rest))
            except UnreadableError:
                pass
            else:
                return _with_id(content, schema_id, len(data))
        return decode(data)

    return unframed


def _schema_id(data: bytes) -> int | None:
    if len(data) <= FRAME_BYTES or data[0]:
        return None
    return int.from_bytes(data[1:FRAME_BYTES], "big")


def _with_id(content: Content, schema_id: int, size_bytes: int) -> Content:
    return Content(
        format=content.format,
        text=content.text,
        size_bytes=size_bytes,
        schema_id=schema_id,
        tree=content.tree,
    )


def _decode_or_hex(decode: Decode) -> Decode:
    def shown(data: bytes) -> Content:
        try:
            return decode(data)
        except UnreadableError as error:
            return as_hex(data, str(error))

    return shown


def _guess(data: bytes) -> Content:
    """JSON, text, a number, MessagePack, else digits; what is behind a registry's frame is said."""
    try:
        content = as_text(data)
    except UnreadableError:
        pass
    else:
        if _CONTROL_CHARACTER.search(content.text or "") is None:
            return _json_or(content, data)
    schema_id = _schema_id(data)
    if schema_id is not None and data[FRAME_BYTES : FRAME_BYTES + 1] in (b"{", b"["):
        try:
            return _with_id(as_json(data[FRAME_BYTES:]), schema_id, len(data))
        except UnreadableError:
            pass
    if len(data) in _NUMBER_BYTES:
        return as_number(data)
    if looks_like_message_pack(data):
        try:
            return as_message_pack(data)
        except UnreadableError:
            pass
    if schema_id is None:
        return as_hex(data)
    return Content(
        format=Format.HEX,
        text=as_hex(data).text,
        size_bytes=len(data),
        schema_id=schema_id,
        problem=f"schema {schema_id} of a registry, perhaps: no schema file is mapped to the topic",
    )


def _json_or(text: Content, data: bytes) -> Content:
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return as_json(data)
        except UnreadableError:
            pass
    return text
