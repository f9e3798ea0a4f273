"""Settings of a client from a properties file, as Java's `client.properties` has them.

Kafka's own tools read the same files (`--command-config`), so one file serves both; librdkafka's
names and those of our settings may be mixed with Java's.

Not here: what the names of security mean (`spellings.py`), how a file is cut (`barnabas_protocol`).
Invariants: no error repeats a line of the file, which may hold a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from barnabas_client.config.secret_files import warn_if_others_read
from barnabas_client.config.spellings import respelled
from barnabas_client.errors import ConfigurationError
from barnabas_protocol.settings.properties import parse_properties

FILE_BYTES_MAX: Final = 1024 * 1024
_SECRET_ENDINGS: Final = ("password", "jaas.config", "keystore.key", "key.pem", "key_pem")
# Classes of Java, and settings of its client that cannot mean anything here.
_JAVA_ONLY: Final = frozenset(
    {
        "key_serializer",
        "value_serializer",
        "key_deserializer",
        "value_deserializer",
        "interceptor_classes",
        "client_dns_lookup",
    }
)


def settings_from_file(path: str | Path) -> dict[str, Any]:
    """Keyword arguments for a client: `Producer(**settings_from_file("client.properties"))`.

    Raises: ConfigurationError.
    """
    return client_settings_in(read_properties_file(path))


def read_properties_file(path: str | Path) -> dict[str, str]:
    """The names and values of a file, as they are written there.

    Raises: ConfigurationError if it cannot be read, or is no properties file.
    """
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigurationError(f"{path} has more than {FILE_BYTES_MAX} bytes")
    try:
        properties = parse_properties(data.decode())
    except ValueError as error:  # UnicodeDecodeError included
        raise ConfigurationError(f"{path} is no properties file: {error}") from None
    if any(name.endswith(_SECRET_ENDINGS) for name in properties):
        warn_if_others_read(path, "the properties")
    return properties


def client_settings_in(properties: Mapping[str, str]) -> dict[str, Any]:
    """What the properties mean for this client, under the names of its settings.

    Unknown names are left for the client to refuse. Raises: ConfigurationError.
    """
    found = respelled(properties)
    return {name: value for name, value in found.items() if name not in _JAVA_ONLY}
