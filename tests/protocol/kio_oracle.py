"""kio as an oracle: its class for a message version, and conversion of our values into its own.

kio has one class per version, renames times (`timeout_ms` becomes `timeout`, a timedelta) and has
rich types for error codes, times and uuids. It knows no version older than Apache Kafka 4 does.
"""

import dataclasses
import datetime
import importlib
import io
import uuid
from typing import Any, get_args

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import Records

from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.schema import Message

# Fields that Apache Kafka 4.4 renamed and kio has under the name of 4.3.
RENAMED = {
    ("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch",
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "acceptable_recovery_lag_legacy",
}

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def kio_class(module: str, version: int, role: str) -> Any:
    """Return kio's class for a `request`, `response` or `data`, or None if it has none."""
    try:
        loaded = importlib.import_module(f"kio.schema.{module}.v{version}.{role}")
    except ModuleNotFoundError:
        return None
    kind = getattr(EntityType, role)
    return next(c for c in vars(loaded).values() if getattr(c, "__type__", None) is kind)


def write(entity: Any) -> bytes:
    """Return kio's bytes."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def read(kind: Any, payload: bytes) -> Any:
    """Read with kio, which must use up every byte."""
    entity, size = entity_reader(kind)(payload, 0)
    assert size == len(payload)
    return entity


def convert(message: Message, kind: Any) -> Any:
    """Return kio's instance with the values of ours."""
    values = {}
    for field in dataclasses.fields(kind):
        renamed = RENAMED.get((type(message).__name__, field.name), field.name)
        names = (renamed, f"{field.name}_ms", field.name.rstrip("_"))
        found = [name for name in names if hasattr(message, name)]
        assert found, f"{type(message).__name__} lacks {field.name}"
        values[field.name] = _convert(getattr(message, found[0]), field)
    return kind(**values)


def _convert(value: Any, field: Any) -> Any:
    if isinstance(value, list):
        return tuple(_convert(item, field) for item in value)
    kafka_type = field.metadata.get("kafka_type")
    if kafka_type == "datetime_i64":
        return None if value == -1 else EPOCH + datetime.timedelta(milliseconds=value)
    if value is None or value == ZERO_UUID:
        return None
    if kafka_type == "uuid":
        return uuid.UUID(bytes=value)
    if kafka_type == "error_code":
        return ErrorCode(value)
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return datetime.timedelta(milliseconds=value)
    if kafka_type == "records":
        return Records(value)
    if isinstance(value, Message):
        return convert(value, _entity_class(field.type))
    return value


def _entity_class(annotation: Any) -> Any:
    """Return the entity inside an optional or a tuple, or None."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    found = (_entity_class(part) for part in get_args(annotation))
    return next((part for part in found if part is not None), None)
