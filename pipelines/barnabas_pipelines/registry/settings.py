"""Where a schema registry is and how it is used: a URL, and options as its users know them. Pure.

The options are those of Confluent's Python client; a Java user's `schema.registry.` before a name,
`basic.auth.credentials.source` and a bare `bearer.auth.token` mean what they mean there.

Invariants: neither `repr`, nor an error, nor a plan repeats a password; every request has a
timeout, and is repeated a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from barnabas_pipelines.errors import OptionsError
from barnabas_protocol.settings.suggestions import did_you_mean

_JAVA_PREFIX: Final = "schema.registry."
_CREDENTIALS_SOURCE: Final = "basic.auth.credentials.source"
_BEARER_SOURCE: Final = "bearer.auth.credentials.source"
_BEARER_CLUSTER: Final = "bearer.auth.logical.cluster"
_TEXTS: Final = (
    "basic.auth.user.info",
    _BEARER_SOURCE,
    "bearer.auth.token",
    _BEARER_CLUSTER,
    "bearer.auth.identity.pool.id",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.issuer.endpoint.url",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "proxy",
)
#: The defaults. The client itself would wait for ever.
_NUMBERS: Final[Mapping[str, float]] = {
    "timeout": 30,
    "max.retries": 5,
    "retries.wait.ms": 500,
    "retries.max.wait.ms": 10_000,
}
NAMES: Final = (*_TEXTS, _CREDENTIALS_SOURCE, *_NUMBERS)


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """A registry, or several of one cluster with commas, and the options of its client."""

    url: str = field(repr=False)
    options: tuple[tuple[str, Any], ...] = field(repr=False)

    @classmethod
    def of(cls, url: str, options: Mapping[str, str]) -> RegistrySettings:
        """Read what somebody wrote. Raises: OptionsError."""
        if not all(_is_url(one.strip()) for one in url.split(",")):
            raise OptionsError("--schema-registry: it must be a URL such as http://host:8081")
        found: dict[str, Any] = dict(_NUMBERS)
        for spelled, text in options.items():
            name = spelled.removeprefix(_JAVA_PREFIX)
            if name in _NUMBERS:
                found[name] = _number(name, text)
            elif name in _TEXTS:
                found[name] = text
            elif name == _CREDENTIALS_SOURCE:
                if text not in ("USER_INFO", "URL"):
                    raise OptionsError(f"--schema-registry-option {name}: USER_INFO or URL")
            else:
                hint = did_you_mean(name, NAMES) or f"; known: {', '.join(NAMES)}"
                raise OptionsError(f"--schema-registry-option {name} is unknown{hint}")
        if "bearer.auth.token" in found:
            found.setdefault(_BEARER_SOURCE, "STATIC_TOKEN")
        if _BEARER_SOURCE in found:
            # Confluent's cloud wants to know it; others are sent an empty header.
            found.setdefault(_BEARER_CLUSTER, "")
        return cls(url, tuple(sorted(found.items())))

    @property
    def shown(self) -> str:
        """The URL without the name and password that may be in it."""
        return ",".join(_without_credentials(one.strip()) for one in self.url.split(","))

    def client_conf(self) -> dict[str, Any]:
        """What Confluent's client takes; it has passwords."""
        return {"url": self.url, **dict(self.options)}


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 3_600_000 or (name == "timeout" and number == 0):
        raise OptionsError(f"--schema-registry-option {name}: it must be a number")
    return number


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        # A port that is none is often a password with a slash in it; its error would show it.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
