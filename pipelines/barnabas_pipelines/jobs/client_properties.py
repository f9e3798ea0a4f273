"""A mounted `client.properties` as options of a job's source and sink: `kafka.…`, each line one.

    python -m barnabas_pipelines.jobs.archive --client-properties /etc/kafka/client.properties ...

The driver reads the file; executors get what it says with the plan of the query, and read the
files of certificates that it names, so those are mounted in both. A password is so in no command
line, and neither in Spark's page nor in its event log (`session.py` has what is redacted there).

Not here: what the settings mean (`kafka_settings.py`). Invariants: what is given as an option wins
over the file; no error repeats a value of it. Source: SEC-103.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_client.config.properties_file import read_properties_file
from barnabas_client.errors import ConfigurationError
from barnabas_pipelines import kafka_settings
from barnabas_pipelines.errors import OptionsError

CLIENT_PROPERTIES: Final = "client-properties"
BOOTSTRAP_SERVERS: Final = "bootstrap-servers"
_SERVERS: Final = "bootstrap.servers"
_OPTIONS_BY_ROLE: Final = {"source-option": "reading", "sink-option": "writing"}


def read(path: str) -> dict[str, str]:
    """The settings in the file. Raises: OptionsError."""
    try:
        return read_properties_file(path)
    except ConfigurationError as error:
        raise OptionsError(f"--{CLIENT_PROPERTIES} {error}") from None


def servers(properties: Mapping[str, str]) -> str | None:
    """The brokers that the file names, if it does."""
    return properties.get(_SERVERS) or properties.get("bootstrap_servers")


def add_to(values: dict[str, Any], properties: Mapping[str, str]) -> None:
    """Put the settings below those of the options of source and sink that a job has."""
    for name, use in _OPTIONS_BY_ROLE.items() if properties else ():
        if name in values:
            chosen = values[name] or {}
            taken = {one.lower() for one in chosen}
            in_file = kafka_settings.usable_properties(properties, use)
            below = {key: text for key, text in in_file.items() if key.lower() not in taken}
            values[name] = {**below, **chosen}
