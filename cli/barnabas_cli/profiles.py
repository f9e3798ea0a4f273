"""Profiles: named connections in `~/.config/barnabas/config.toml`.

    default-profile = "laptop"

    [profiles.laptop]
    command-config = "/home/me/data/secure/client.properties"

    [profiles.production]
    bootstrap.servers = "broker-1.example:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "alice"
    sasl.password = "..."
    ssl.ca.location = "ca.crt"

A profile is settings of the client, by our names, Java's or librdkafka's, or a properties file with
them, or both: what stands in the profile wins. Paths are relative to the file. `default-profile`
holds where neither a profile nor brokers nor a properties file is named, so that no password is
sent to brokers that it is not for.

Invariants: a file that others may read is refused, as it holds passwords; no error repeats a value.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas_cli.failures import CommandError
from barnabas_protocol.settings.suggestions import hint

FILE_BYTES_MAX: Final = 1024 * 1024
_PROFILES: Final = "profiles"
_DEFAULT: Final = "default-profile"
_COMMAND_CONFIG: Final = "command-config"
# Settings that are places of files.
_PLACES: Final = frozenset(
    {
        "ssl_cafile",
        "ssl_certfile",
        "ssl_keyfile",
        "ssl_ca_location",
        "ssl_certificate_location",
        "ssl_key_location",
        "ssl_truststore_location",
        "ssl_keystore_location",
        "sasl_oauthbearer_token_file",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile: a properties file, if any, and the settings that win over it."""

    name: str
    command_config: str | None
    settings: Mapping[str, str]


def config_path() -> Path:
    """Where the file is: in `XDG_CONFIG_HOME`, by default `~/.config`."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path("~/.config").expanduser()) / "barnabas" / "config.toml"


def find_profile(name: str | None) -> Profile | None:
    """The profile of that name, or the default one; None where none is named and there is none.

    Raises: CommandError if the file cannot be used, or has no such profile.
    """
    path = config_path()
    document = _load(path)
    if document is None:
        if name is None:
            return None
        raise CommandError(f"there is no profile '{name}': {path} does not exist")
    profiles = document.get(_PROFILES, {})
    if not isinstance(profiles, Mapping):
        raise CommandError(f"{path}: '{_PROFILES}' must be tables, as in [profiles.laptop]")
    chosen = name if name is not None else document.get(_DEFAULT)
    if chosen is None:
        return None
    if not isinstance(chosen, str) or not isinstance(profiles.get(chosen), Mapping):
        raise CommandError(f"{path} has no profile '{chosen}'.{hint(str(chosen), profiles)}")
    return _profile(path, chosen, profiles[chosen])


def profile_names() -> list[str]:
    """The names of all profiles; none where the file cannot be used."""
    try:
        found = (_load(config_path()) or {}).get(_PROFILES, {})
    except CommandError:
        return []
    return sorted(found) if isinstance(found, Mapping) else []


def _load(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as opened:
            _check_owner(path, os.fstat(opened.fileno()))
            data = opened.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise CommandError(f"{path} has more than {FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"{path} is no TOML: {error}") from None


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CommandError(
            f"{path} can hold passwords and others may use it: run 'chmod 600 {path}'"
        )
    if found.st_uid not in (os.getuid(), 0):
        raise CommandError(f"{path} belongs to somebody else: make one of your own")


def _profile(path: Path, name: str, table: Mapping[str, Any]) -> Profile:
    settings: dict[str, str] = {}
    _flatten(path, name, table, "", settings)
    command_config = settings.pop(_COMMAND_CONFIG, None)
    for key, value in settings.items():
        if key.replace(".", "_") in _PLACES:
            settings[key] = _placed(path, value)
    return Profile(
        name=name,
        command_config=None if command_config is None else _placed(path, command_config),
        settings=settings,
    )


def _placed(path: Path, text: str) -> str:
    return str(path.parent / Path(text).expanduser())


def _flatten(
    path: Path, name: str, table: Mapping[str, Any], prefix: str, found: dict[str, str]
) -> None:
    """TOML reads `sasl.username = ...` as a table in a table."""
    for key, value in table.items():
        match value:
            case Mapping():
                _flatten(path, name, value, f"{prefix}{key}.", found)
            case bool():
                found[prefix + key] = str(value).lower()
            case str() | int() | float():
                found[prefix + key] = str(value)
            case list() if all(isinstance(one, str) for one in value):
                found[prefix + key] = ",".join(value)
            case _:
                raise CommandError(f"{path}, profile '{name}': {prefix}{key} must be text")
