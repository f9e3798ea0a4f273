"""Values of `admin.configs`: which resource, which setting, where its value comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barnabas_protocol.wire_enum import WireEnum


class ResourceType(WireEnum):
    """What has settings; the numbers are the wire's."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One thing that has settings; a broker with an empty name stands for all brokers."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """A topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> ConfigResource:
        """A broker; without an id the default of the whole cluster."""
        return cls(ResourceType.BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def broker_logger(cls, node_id: int) -> ConfigResource:
        """The log levels of a broker."""
        return cls(ResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        """A group."""
        return cls(ResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        """A subscription to the metrics of clients (KIP-714)."""
        return cls(ResourceType.CLIENT_METRICS, name)

    def __str__(self) -> str:
        """Return what an error message shows."""
        return f"{self.type.name.lower().replace('_', ' ')} {self.name or '(cluster default)'}"


class ConfigSource(WireEnum):
    """Where a value comes from; the numbers are the wire's, -1 if the broker does not return it."""

    NOT_SAID = -1
    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class ConfigType(WireEnum):
    """The type of a value, which travels as text in any case."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """Another place that may give a setting its value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A setting as it is in force; a sensitive one has no value here.

    `synonyms` are in order of precedence and empty unless they were asked for.
    """

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.NOT_SAID
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether it is not set."""
        return self.source is ConfigSource.DEFAULT


class ConfigOperation(IntEnum):
    """What to do with a setting; the numbers are the wire's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting; made by `set`, `delete`, `append` or `subtract`."""

    name: str
    value: str | None
    operation: ConfigOperation

    @classmethod
    def set(cls, name: str, value: str) -> ConfigChange:
        """Give the setting a value."""
        return cls(name, value, ConfigOperation.SET)

    @classmethod
    def delete(cls, name: str) -> ConfigChange:
        """Let the default be in force again."""
        return cls(name, None, ConfigOperation.DELETE)

    @classmethod
    def append(cls, name: str, value: str) -> ConfigChange:
        """Add elements to a list, separated by commas."""
        return cls(name, value, ConfigOperation.APPEND)

    @classmethod
    def subtract(cls, name: str, value: str) -> ConfigChange:
        """Take elements from a list, separated by commas."""
        return cls(name, value, ConfigOperation.SUBTRACT)
