"""Columns of keys or values, decoded in workers: fields, and the reason where there are none.

The driver finds the schema by which a topic is read, once (`Reading.of`), and gives it to tasks.
A worker looks up each further schema id that it meets once and remembers what decodes it, in a
store of bounded size. An id that the registry does not know is a reason, and is looked up again
with the next batch of rows; a registry that is away is an error: no record is taken for bad because
of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from barnabas_pipelines.registry.client import (
    LATEST,
    RegisteredSchema,
    RegistryClient,
    SchemaType,
    UnknownSchemaError,
)
from barnabas_pipelines.registry.reading import (
    Decode,
    UnreadableError,
    ValueReader,
    fields_ddl,
    split,
)
from barnabas_pipelines.registry.settings import RegistrySettings

FIELDS: Final = "fields"
REASON: Final = "reason"
_SCHEMAS_MAX: Final = 1000
_READINGS_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the keys or the values of a topic are read: by which schema, of which registry.

    `message` is the name of a Protobuf message; None for the first of the schema.
    """

    registry: RegistrySettings
    schema: RegisteredSchema
    message: str | None = None

    @classmethod
    def of(
        cls,
        registry: RegistrySettings,
        subject: str,
        version: str = LATEST,
        message: str | None = None,
    ) -> Reading:
        """Look the schema up. Raises: UnknownSchemaError, RegistryError, OptionsError."""
        client = RegistryClient(registry)
        try:
            schema = client.by_subject(subject, version)
        finally:
            client.close()
        found = cls(registry=registry, schema=schema, message=message)
        found.reader()
        return found

    def reader(self) -> ValueReader:
        """What reads by this schema. Raises: OptionsError."""
        match self.schema.type:
            case SchemaType.AVRO:
                from barnabas_pipelines.registry.avro import AvroReader

                return AvroReader(self.schema)
            case SchemaType.PROTOBUF:
                from barnabas_pipelines.registry.protobuf import ProtobufReader

                return ProtobufReader(self.schema, self.message)
            case SchemaType.JSON:
                from barnabas_pipelines.registry.json_schema import JsonSchemaReader

                return JsonSchemaReader(self.schema)

    def fields_ddl(self) -> str:
        """The fields, as Spark writes a schema."""
        return fields_ddl(self.reader().type)


class ColumnDecoder:
    """Decodes columns by one reading; lives as long as its process."""

    def __init__(self, reading: Reading) -> None:
        """Parse the schema; the registry is used when a schema is needed."""
        self._registry = reading.registry
        self._reader = reading.reader()
        self._own = reading.schema
        self._client: RegistryClient | None = None
        self._decoders: OrderedDict[int, Decode | UnreadableError] = OrderedDict()
        #: Of a row: fields and reason.
        self.type = pa.struct([pa.field(FIELDS, self._reader.type), pa.field(REASON, pa.string())])

    def close(self) -> None:
        """Close its connections, if there are any."""
        if self._client is not None:
            self._client.close()

    def decode(self, values: pa.Array) -> pa.StructArray:
        """The rows of a column; one that is null has neither. Raises: RegistryError."""
        unknown: dict[int, UnreadableError] = {}
        rows: list[Mapping[str, Any] | None] = []
        reasons: list[str | None] = []
        for value in values.to_pylist():
            row, reason = None, None
            if value is not None:
                try:
                    schema_id, payload = split(value)
                    row = self._decoder(schema_id, unknown)(payload)
                except UnreadableError as error:
                    reason = str(error)
            rows.append(row)
            reasons.append(reason)
        fields = self._fitted(rows, reasons)
        return pa.StructArray.from_arrays(
            [fields, pa.array(reasons, pa.string())], fields=list(self.type)
        )

    def _decoder(self, schema_id: int, unknown: dict[int, UnreadableError]) -> Decode:
        """What decodes values of this schema. Raises: UnreadableError, RegistryError."""
        found = self._decoders.get(schema_id) or unknown.get(schema_id)
        if found is None:
            try:
                found = self._reader.decoder(self._schema(schema_id))
            except UnknownSchemaError as error:
                found = unknown[schema_id] = UnreadableError(str(error))
            except UnreadableError as error:
                found = self._remember(schema_id, error)
            else:
                self._remember(schema_id, found)
        if isinstance(found, UnreadableError):
            raise UnreadableError(str(found))
        return found

    def _remember(self, schema_id: int, found: Any) -> Any:
        self._decoders[schema_id] = found
        if len(self._decoders) > _SCHEMAS_MAX:
            self._decoders.popitem(last=False)
        return found

    def _schema(self, schema_id: int) -> RegisteredSchema:
        if schema_id == self._own.schema_id:
            return self._own
        if self._client is None:
            self._client = RegistryClient(self._registry)
        return self._client.by_id(schema_id)

    def _fitted(
        self, rows: list[Mapping[str, Any] | None], reasons: list[str | None]
    ) -> pa.StructArray:
        """The rows as Arrow has them; one with a value that does not fit its type gets a reason."""
        try:
            return pa.array(rows, self._reader.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            for place, row in enumerate(rows):
                try:
                    pa.array([row], self._reader.type)
                except (pa.ArrowException, ValueError, TypeError, OverflowError):
                    rows[place] = None
                    reasons[place] = "a field does not fit the type by which it is read"
            return pa.array(rows, self._reader.type)


@lru_cache(maxsize=_READINGS_MAX)
def column_decoder(reading: Reading) -> ColumnDecoder:
    """The decoder of this process for a reading."""
    return ColumnDecoder(reading)
