"""The client of a schema registry, on Confluent's own: schemas by subject and version, or by id.

A schema is loaded with all that it refers to, each part once and before what refers to it.
Protobuf schemas come as serialized file descriptors, so that nobody has to compile `.proto` text.

Not here: what is remembered between two requests (`decoding.py`): this client remembers nothing,
as the cache of Confluent's has no bound and forgets in which form a schema was requested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar

from barnabas_pipelines.errors import PipelineError, RegistryError
from barnabas_pipelines.registry.settings import RegistrySettings

LATEST: Final = "latest"
_SERIALIZED: Final = "serialized"
_REFERENCES_MAX: Final = 1000
#: Subject, version, schema not found. A 404 without these is of something else than a registry.
_NOT_FOUND: Final = (40401, 40402, 40403)

T = TypeVar("T")


class UnknownSchemaError(PipelineError):
    """The registry is there and has no such id, subject or version, or one of an unknown kind."""


class SchemaType(Enum):
    """Kinds of schemas, as registries spell them."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"

    @property
    def shown(self) -> str:
        """As people write it."""
        return {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON Schema"}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema with all that it refers to; `subject` and `version` are those of the look-up.

    `references` are names, as the schema spells them, and texts; each before what refers to it.
    """

    type: SchemaType
    text: str
    references: tuple[tuple[str, str], ...] = ()
    schema_id: int
    subject: str | None = None
    version: int | None = None

    @property
    def shown(self) -> str:
        """One line for a plan."""
        where = f"{self.subject} version {self.version}, " if self.subject else ""
        return f"{self.type.shown}, {where}id {self.schema_id}"


class RegistryClient:
    """Sends requests to the registry of the settings; one a call, and one a reference."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Connect to nothing yet. Raises: RegistryError, such as for a certificate without key."""
        self._settings = settings
        self._client = self._checked(lambda: _new_client(settings))

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id. Raises: UnknownSchemaError, RegistryError."""
        what = f"schema {schema_id}"

        def get(form: str | None) -> Any:
            return self._looked_up(what, lambda: self._client.get_schema(schema_id, fmt=form))

        found = get(None)
        if found.schema_type == SchemaType.PROTOBUF.value:
            found = get(_SERIALIZED)
        return self._loaded(found, schema_id=schema_id)

    def by_subject(self, subject: str, version: str = LATEST) -> RegisteredSchema:
        """A version of a subject. Raises: UnknownSchemaError, RegistryError."""
        what = f"subject {subject} in version {version}"

        def get(form: str | None) -> Any:
            if version == LATEST:
                return self._looked_up(what, lambda: self._client.get_latest_version(subject, form))
            return self._looked_up(
                what, lambda: self._client.get_version(subject, int(version), False, form)
            )

        found = get(None)
        if found.schema.schema_type == SchemaType.PROTOBUF.value:
            # By its number: the newest may be another by now.
            version = str(found.version)
            found = get(_SERIALIZED)
        return self._loaded(
            found.schema, schema_id=found.schema_id, subject=subject, version=found.version
        )

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def _loaded(self, schema: Any, **more: Any) -> RegisteredSchema:
        kind = schema.schema_type or SchemaType.AVRO.value
        if kind not in SchemaType.__members__:
            raise UnknownSchemaError(
                f"the schema {more['schema_id']} of the schema registry is of the type {kind}, "
                "which is not known here"
            )
        references: dict[str, str] = {}
        self._collect(schema, SchemaType[kind], references, set())
        return RegisteredSchema(
            type=SchemaType[kind],
            text=schema.schema_str,
            references=tuple(references.items()),
            **more,
        )

    def _collect(
        self, schema: Any, kind: SchemaType, found: dict[str, str], seen: set[str]
    ) -> None:
        form = _SERIALIZED if kind is SchemaType.PROTOBUF else None
        for reference in schema.references or ():
            name, subject, version = reference.name, reference.subject, reference.version
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > _REFERENCES_MAX:
                raise RegistryError(f"a schema refers to more than {_REFERENCES_MAX} others")
            # A reference holds, also to a version that was deleted since.
            get = partial(self._client.get_version, subject, version, True, form)
            referred = self._looked_up(f"subject {subject} in version {version}", get)
            self._collect(referred.schema, kind, found, seen)
            found[name] = referred.schema.schema_str

    def _looked_up(self, what: str, get: Callable[[], T]) -> T:
        """What a request brings. Raises: UnknownSchemaError, RegistryError."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return self._checked(get)
        except RegistryError as error:
            cause = error.__cause__
            if isinstance(cause, SchemaRegistryError) and cause.error_code in _NOT_FOUND:
                raise UnknownSchemaError(f"the schema registry has no {what}") from cause
            raise
        finally:
            self._client.clear_caches()

    def _checked(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except Exception as error:  # Confluent's client lets those of its HTTP library through
            # Its last line is the server's or the socket's word: no header, no password.
            text = " ".join(str(error).split())[:300] or type(error).__name__
            raise RegistryError(
                f"the schema registry {self._settings.shown} cannot be used: {text}"
            ) from error


def _new_client(settings: RegistrySettings) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient(settings.client_conf())
