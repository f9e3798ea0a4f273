"""Keys and values as real producers make them: by Confluent's serializers and a schema registry."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import any_pb2, descriptor_pb2, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from tests.support.schema_registry import SchemaRegistry

FIELD = descriptor_pb2.FieldDescriptorProto


class Serializers:
    """Serializes for one topic, under the subjects that serializers choose by default."""

    def __init__(
        self, registry: SchemaRegistry, topic: str, *, is_key: bool = False, **conf: str
    ) -> None:
        self.client = SchemaRegistryClient({"url": registry.url, **conf})
        registry.on_exit(self.client.close)
        field = MessageField.KEY if is_key else MessageField.VALUE
        self._context = SerializationContext(topic, field)

    def register(
        self, subject: str, text: str, kind: str, references: Sequence[SchemaReference] = ()
    ) -> int:
        """Put a schema into the registry; its id."""
        return self.client.register_schema(subject, Schema(text, kind, list(references)))

    def avro(self, schema: Any, value: Any, references: Sequence[SchemaReference] = ()) -> bytes:
        text = Schema(json.dumps(schema), "AVRO", list(references))
        return bytes(AvroSerializer(self.client, text)(value, self._context) or b"")

    def json(self, schema: Any, value: Any, references: Sequence[SchemaReference] = ()) -> bytes:
        text = Schema(json.dumps(schema), "JSON", list(references))
        serialize = JSONSerializer(text, self.client, conf={"validate": False})
        return bytes(serialize(value, self._context) or b"")

    def protobuf(self, message: Any) -> bytes:
        return bytes(ProtobufSerializer(type(message), self.client)(message, self._context) or b"")


def avro_record(name: str, **fields: Any) -> dict[str, Any]:
    """The schema of a record; a field is a type, or a type and a default."""
    made = [
        {"name": field, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": field, "type": kind}
        for field, kind in fields.items()
    ]
    return {"type": "record", "name": name, "namespace": "shop", "fields": made}


def protobuf_file(
    name: str, messages: Mapping[str, Sequence[Any]], imports: Sequence[str] = ()
) -> descriptor_pb2.FileDescriptorProto:
    """A file of messages; a field is (number, name, type) or (number, name, type, name of type)."""
    file = descriptor_pb2.FileDescriptorProto(
        name=name, package="shop", syntax="proto3", dependency=imports
    )
    for message, fields in messages.items():
        made = file.message_type.add(name=message)
        for number, field, kind, *of in fields:
            added = made.field.add(name=field, number=number, type=kind, label=FIELD.LABEL_OPTIONAL)
            if of and of[0]:
                added.type_name = of[0]
            if of[1:]:
                added.label = FIELD.LABEL_REPEATED
    return file


def protobuf_classes(*files: descriptor_pb2.FileDescriptorProto) -> dict[str, type[Any]]:
    """Classes of the messages of the files, by their full names."""
    pool = DescriptorPool()
    for known in (any_pb2, struct_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.Add(file)
    return {
        f"shop.{message.name}": message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"shop.{message.name}")
        )
        for file in files
        for message in file.message_type
    }
