"""Settings of a connection from a file: Kafka's properties become settings of `barnabas_client`.

Pure. Kafka's own tools read the same files (`--command-config`), so one file serves both. Our names
(`sasl_username`) and Kafka's (`bootstrap.servers`) may be mixed; what is unknown is left for the
client to refuse, with the nearest name.

Source: the configuration of Kafka's clients; JAAS lines as PlainLoginModule and ScramLoginModule
take them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from barnabas_cli.failures import CommandError

_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
_LOGIN_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
# Settings of the Java client that cannot mean anything here.
_IGNORED = frozenset(
    {
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "sasl.client.callback.handler.class",
        "client.dns.lookup",
    }
)
_RENAMED = {
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.password": "ssl_password",
}
_PEM_ONLY = ("ssl.truststore.type", "ssl.keystore.type")


def settings_from(properties: Mapping[str, str]) -> dict[str, str | bool]:
    """The client's settings that a properties file means.

    Raises: CommandError for a JAAS line or a key store that cannot be used.
    """
    settings: dict[str, str | bool] = {}
    for name, value in properties.items():
        if name in _IGNORED:
            continue
        if name == "sasl.jaas.config":
            settings.update(jaas_settings(value, properties.get("sasl.mechanism")))
        elif name in _PEM_ONLY:
            if value.upper() != "PEM":
                raise CommandError(f"{name}={value} cannot be read: convert the store to PEM")
        elif name == "ssl.endpoint.identification.algorithm":
            settings["ssl_check_hostname"] = bool(value)
        else:
            settings[_RENAMED.get(name, name.replace(".", "_"))] = value
    return settings


def jaas_settings(line: str, mechanism: str | None) -> dict[str, str]:
    """User and password of a JAAS line; the mechanism too where only one can be meant.

    Raises: CommandError where the login module is not PLAIN's or SCRAM's.
    """
    module = line.split(maxsplit=1)[0].rpartition(".")[2] if line.strip() else ""
    if module not in _LOGIN_MODULES:
        raise CommandError(
            f"sasl.jaas.config names '{module}': use PlainLoginModule or ScramLoginModule"
        )
    options = {
        match[1]: _unquoted(match[2]) if match[2] is not None else match[3] or match[4] or ""
        for match in _JAAS_OPTION.finditer(line)
    }
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise CommandError(f"sasl.jaas.config has no {' and no '.join(missing)}")
    settings = {"sasl_username": options["username"], "sasl_password": options["password"]}
    if mechanism is None and len(_LOGIN_MODULES[module]) == 1:
        settings["sasl_mechanism"] = _LOGIN_MODULES[module][0]
    return settings


def parsed(text: str, parse: Callable[[str], Mapping[str, str]]) -> dict[str, str | bool]:
    """The settings in the text of a properties file, read by `parse`."""
    return settings_from(parse(text))


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
