"""Listener addresses: the texts of `listeners` and `advertised.listeners` as endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas_broker.config.definitions import ConfigError

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ENCRYPTED: Final = ("SSL", "SASL_SSL")
COUNT_DIGITS_MAX: Final = 10


class Endpoint(NamedTuple):
    """Where a listener is, or is said to be; an empty host means every address."""

    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """The security protocol of each listener name. Raises: ConfigError."""
    protocols: dict[str, str] = {}
    for item in text.split(","):
        if not item.strip():
            continue
        name, separator, protocol = item.strip().partition(":")
        if not separator or protocol.strip() not in _PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {item.strip()} is not NAME:PROTOCOL"
            )
        protocols[name.strip().upper()] = protocol.strip()
    return protocols


def parse_endpoints(key: str, text: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The endpoints in a comma-separated list of NAME://host:port.

    Names are upper case and differ. Raises: ConfigError.
    """
    endpoints = tuple(
        _parse_endpoint(key, item.strip(), protocols) for item in text.split(",") if item.strip()
    )
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key}: each listener must have a different name: {text}")
    return endpoints


def _parse_endpoint(key: str, text: str, protocols: Mapping[str, str]) -> Endpoint:
    name, separator, address = text.partition("://")
    host, colon, port_text = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (separator and colon and name and port_text.isdigit()) or int(port_text) > 65535:
        raise ConfigError(f"{key}: {text} is not of the form NAME://host:port")
    name = name.upper()
    if name not in protocols:
        raise ConfigError(f"{key}: listener.security.protocol.map has no protocol for {name}")
    return Endpoint(name, host, int(port_text), protocols[name])


def parse_connection_overrides(text: str) -> dict[str, int]:
    """Connection limits of single addresses: `host:count,host:count`. Raises: ConfigError."""
    limits: dict[str, int] = {}
    for item in text.split(","):
        if not item.strip():
            continue
        host, separator, count = item.strip().rpartition(":")
        is_count = count.isascii() and count.isdigit() and len(count) <= COUNT_DIGITS_MAX
        if not separator or not is_count:
            raise ConfigError(f"max.connections.per.ip.overrides: {item.strip()} is not host:count")
        limits[host] = int(count)
    return limits
