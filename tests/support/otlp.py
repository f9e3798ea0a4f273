"""OpenTelemetry's metrics as protobuf's own library writes them, from a schema that is built here.

The fields and their numbers are those of opentelemetry-proto 1.x, as far as clients use them.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE: Final = "test.otlp"
_SCALARS: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "fixed64": FieldDescriptorProto.TYPE_FIXED64,
    "sfixed64": FieldDescriptorProto.TYPE_SFIXED64,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}
# By message: number, name, type; `*` stands before what is repeated, `?` before what is of a oneof.
_SCHEMA: Final[Mapping[str, tuple[tuple[int, str, str], ...]]] = {
    "MetricsData": ((1, "resource_metrics", "*ResourceMetrics"),),
    "ResourceMetrics": (
        (1, "resource", "Resource"),
        (2, "scope_metrics", "*ScopeMetrics"),
        (3, "schema_url", "string"),
    ),
    "Resource": ((1, "attributes", "*KeyValue"),),
    "ScopeMetrics": ((1, "scope", "Scope"), (2, "metrics", "*Metric"), (3, "schema_url", "string")),
    "Scope": ((1, "name", "string"), (2, "version", "string")),
    "Metric": (
        (1, "name", "string"),
        (2, "description", "string"),
        (3, "unit", "string"),
        (5, "gauge", "?Gauge"),
        (7, "sum", "?Sum"),
        (9, "histogram", "?Gauge"),
    ),
    "Gauge": ((1, "data_points", "*NumberDataPoint"),),
    "Sum": (
        (1, "data_points", "*NumberDataPoint"),
        (2, "aggregation_temporality", "uint32"),
        (3, "is_monotonic", "bool"),
    ),
    "NumberDataPoint": (
        (7, "attributes", "*KeyValue"),
        (2, "start_time_unix_nano", "fixed64"),
        (3, "time_unix_nano", "fixed64"),
        (4, "as_double", "?double"),
        (6, "as_int", "?sfixed64"),
        (8, "flags", "uint32"),
    ),
    "KeyValue": ((1, "key", "string"), (2, "value", "AnyValue")),
    "AnyValue": (
        (1, "string_value", "?string"),
        (2, "bool_value", "?bool"),
        (3, "int_value", "?int64"),
        (4, "double_value", "?double"),
        (5, "array_value", "?ArrayValue"),
        (7, "bytes_value", "?bytes"),
    ),
    "ArrayValue": ((1, "values", "*AnyValue"),),
}


def _classes() -> dict[str, Any]:
    file = FileDescriptorProto(name="otlp.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _SCHEMA.items():
        message = DescriptorProto(name=name)
        for number, field_name, type_name in fields:
            bare = type_name.lstrip("*?")
            field = message.field.add(name=field_name, number=number)
            repeated = type_name.startswith("*")
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if bare in _SCALARS:
                field.type = _SCALARS[bare]
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{bare}"
            if type_name.startswith("?"):
                if not message.oneof_decl:
                    message.oneof_decl.add(name="one")
                field.oneof_index = 0
        file.message_type.append(message)
    pool = DescriptorPool()
    pool.Add(file)  # type: ignore[no-untyped-call]
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _SCHEMA
    }


_CLASSES: Final = _classes()
DELTA: Final = 1
CUMULATIVE: Final = 2


def point(value: float, /, flags: int = 0, **attributes: Any) -> dict[str, Any]:
    """A data point; whole numbers are integers, as clients have both."""
    number = {"as_int": value} if isinstance(value, int) else {"as_double": value}
    return {
        "start_time_unix_nano": 1,
        "time_unix_nano": 2,
        "flags": flags,
        "attributes": [
            {"key": key, "value": {_value_field(each): each}} for key, each in attributes.items()
        ],
        **number,
    }


def _value_field(value: Any) -> str:
    kinds = {
        str: "string",
        bool: "bool",
        int: "int",
        float: "double",
        dict: "array",
        bytes: "bytes",
    }
    return f"{kinds[type(value)]}_value"


def gauge(name: str, *points: dict[str, Any]) -> dict[str, Any]:
    """A metric whose value goes up and down."""
    return {"name": name, "unit": "1", "gauge": {"data_points": points}}


def total(
    name: str, *points: dict[str, Any], temporality: int = DELTA, is_monotonic: bool = True
) -> dict[str, Any]:
    """A metric that adds up."""
    data = {
        "data_points": points,
        "aggregation_temporality": temporality,
        "is_monotonic": is_monotonic,
    }
    return {"name": name, "description": "a sum", "sum": data}


def metrics_data(*metrics: dict[str, Any]) -> bytes:
    """The message that clients push."""
    group = {"key": "group_id", "value": {"string_value": "g"}}
    scope = {"scope": {"name": "test"}, "metrics": metrics}
    resource = {"resource": {"attributes": [group]}, "scope_metrics": [scope], "schema_url": "x"}
    encoded: bytes = _CLASSES["MetricsData"](resource_metrics=[resource]).SerializeToString()
    return encoded
