"""What `kafka.…` options mean for `barnabas_client`: the settings of a Java client, translated.

The connector hands them to a Java consumer or producer as they are. Here, each is a setting of
`barnabas_client` with the same name, or one that Java or librdkafka spells otherwise, or it has no
effect where there is no group; anything else is refused by name, never dropped in silence.

Not here: `kafka.bootstrap.servers`, which is a row of `options.py`.
Invariants: no error repeats a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.config.settings import settings_of
from barnabas_client.config.spellings import SPELLINGS, respelled
from barnabas_client.errors import ConfigurationError
from barnabas_pipelines.errors import OptionsError
from barnabas_protocol.settings.kinds import OBJECT
from barnabas_protocol.settings.setting import Setting
from barnabas_protocol.settings.suggestions import nearest

PREFIX: Final = "kafka."
#: Names of the Java client alone are like some of ours and still are others.
_SIMILARITY_MIN: Final = 0.75

PRODUCER_DEFAULTS: Final[Mapping[str, Any]] = {"batch_size": 262_144, "linger_ms": 20}
"""Large batches, for throughput: nobody waits for single rows. Options win."""

_SERVERS: Final = "bootstrap.servers"
#: Refused by the connector too, each with what to do instead.
_DECIDED_HERE: Final = {
    "auto.offset.reset": "use startingOffsets; failOnDataLoss says what happens when it is gone",
    "key.deserializer": "keys are bytes: cast the column",
    "value.deserializer": "values are bytes: cast the column",
    "key.serializer": "keys are bytes or text: cast the column",
    "value.serializer": "values are bytes or text: cast the column",
    "enable.auto.commit": "offsets are in the checkpoint; a ProgressCommitter shows them",
    "interceptor.classes": "transform the DataFrame instead",
    "interceptors": "transform the DataFrame instead",
    "partitioner": "give a column named partition",
    "partitioner.class": "give a column named partition",
    "transactional.id": "Spark's sinks are at-least-once",
}

#: Of the Java client's own way to look up names; ours tries every address.
_OF_JAVA: Final = ("client.dns.lookup",)

#: They are about members of groups; the source reads without any.
WITHOUT_EFFECT: Final = frozenset(
    {
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "auto.commit.interval.ms",
        "exclude.internal.topics",
    }
)


def client_settings(given: Mapping[str, str], role: type[ClientSettings]) -> dict[str, Any]:
    """Keyword arguments for a client of the role; `given` has no `kafka.` before its names.

    Raises: OptionsError if a setting is unknown, decided here, or its value is refused.
    """
    check_not_decided_here(given)
    known = usable_settings(role)
    silent = (*_OF_JAVA, *(WITHOUT_EFFECT if role is ConsumerSettings else ()))
    found = _respelled({name: text for name, text in given.items() if name not in silent})
    for name in found:
        if name not in known:
            raise OptionsError(_unknown(name.replace("_", "."), known))
    return found


def known_settings(given: Mapping[str, str], role: type[ClientSettings]) -> dict[str, Any]:
    """The same of those that the role has; the others are another role's, or a Java client's.

    Raises: OptionsError if what says how to log in or whom to trust cannot be used.
    """
    known = usable_settings(role)
    return {name: text for name, text in _respelled(given).items() if name in known}


def usable_properties(properties: Mapping[str, str], use: str) -> dict[str, str]:
    """What a properties file says for reading or writing, as options with `kafka.` before it.

    Programs of other kinds read the same file: what is another role's alone, or decided here, is
    left out; what no role has is kept, for a Java client to take or for ours to refuse.
    """
    roles = role_names()
    of_others = {name for role in roles.values() for name in settings_of(role)} - settings_of(
        roles[use]
    ).keys()
    return {
        f"{PREFIX}{name}": text
        for name, text in properties.items()
        if name.replace(".", "_") not in of_others
        and name.replace("_", ".") not in _DECIDED_HERE
        and name.replace("_", ".") not in (_SERVERS, *WITHOUT_EFFECT)
    }


def _respelled(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        return respelled(given)
    except ConfigurationError as error:
        raise OptionsError(f"{PREFIX}{error}") from None


def check_not_decided_here(given: Mapping[str, str]) -> None:
    """Refuse what neither this source nor the connector lets anyone set.

    Raises: OptionsError.
    """
    for name in given:
        if name in _DECIDED_HERE:
            raise OptionsError(f"{PREFIX}{name} cannot be set: {_DECIDED_HERE[name]}")


def check_settings(values: Mapping[str, Any], role: type[ClientSettings]) -> None:
    """Let the client itself judge the settings, so that it fails now and not in a worker.

    Raises: OptionsError.
    """
    try:
        role.create(values)
    except ConfigurationError as error:
        raise OptionsError(f"the client refuses its settings: {error}") from error


def usable_settings(role: type[ClientSettings]) -> dict[str, Setting]:
    """The settings of a role that can be given as text, by the client's names."""
    hidden = {name.replace(".", "_") for name in (*_DECIDED_HERE, *WITHOUT_EFFECT)}
    hidden |= {"bootstrap_servers", "isolation_level"}
    return {
        name: setting
        for name, setting in settings_of(role).items()
        if name not in hidden and setting.kind is not OBJECT
    }


def role_names() -> Mapping[str, type[ClientSettings]]:
    """The roles that the source and the sink play."""
    return {"reading": ConsumerSettings, "writing": ProducerSettings}


def _unknown(name: str, known: Mapping[str, Setting]) -> str:
    spelled = (one.replace("_", ".") for one in (*known, *SPELLINGS))
    candidates = [*spelled, *WITHOUT_EFFECT]
    near = nearest(name, candidates, _SIMILARITY_MIN)
    hint = f"did you mean {PREFIX}{near}? " if near is not None else ""
    return (
        f"{PREFIX}{name} is no setting of barnabas_client: {hint}docs/reference/pipelines.md lists "
        'them; what only the Java client has needs format("kafka")'
    )
