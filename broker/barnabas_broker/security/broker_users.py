"""The log-ins of brokers among themselves by SCRAM: their names and passwords, in a file.

The file is the same on all brokers and has the form of `barnabas.bootstrap.users.file`. A broker
logs in as the one of its users whose principal may speak for its node id, and verifies others by
the file alone: what the quorum needs cannot come from the quorum, nor from whoever may change
credentials.

Pure. Source: SEC-61.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.security.bootstrap_users import parse_bootstrap_users
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.credentials import (
    MECHANISM_NUMBERS,
    CredentialKey,
    ScramCredentials,
)
from barnabas_broker.security.principal import Principal
from barnabas_protocol.connection.sasl import salted_password, scram_keys

KEY: Final = "barnabas.broker.users.file"
ITERATIONS: Final = 4096
SALT_BYTES: Final = 24
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class FileCredential:
    """What a log-in of a broker is verified by."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int = ITERATIONS
    former: None = None


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """How a broker logs in with others."""

    mechanism: str
    username: str
    password: str = field(repr=False)


class BrokerUsers:
    """The users of brokers, by name."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    @staticmethod
    def parse(data: bytes) -> BrokerUsers:
        """Those of a file. Raises: ConfigError."""
        try:
            return BrokerUsers(parse_bootstrap_users(data))
        except ValueError as error:
            raise ConfigError(f"{KEY}: {error}") from None

    def login(self, mechanism: str, identity: BrokerIdentity, node_id: int) -> BrokerLogin:
        """How the broker of this id logs in. Raises: ConfigError."""
        mine = [
            name
            for name in self._passwords
            if identity.principals is not None
            and identity.principals.may_speak_for(Principal.user(name), node_id)
        ]
        if len(mine) != 1:
            raise ConfigError(
                f"{KEY}: {len(mine)} of its users may speak for broker {node_id} by "
                "barnabas.broker.principals, and it has to be one"
            )
        return BrokerLogin(mechanism, mine[0], self._passwords[mine[0]])

    def credentials(
        self, mechanisms: Iterable[str], secret_bytes: Callable[[int], bytes]
    ) -> ScramCredentials:
        """What log-ins of brokers are verified by; takes some milliseconds for each user."""
        credentials: dict[CredentialKey, FileCredential] = {}
        for mechanism in mechanisms:
            for name, password in self._passwords.items():
                salt = secret_bytes(SALT_BYTES)
                keys = scram_keys(mechanism, salted_password(mechanism, password, salt, ITERATIONS))
                credentials[name, MECHANISM_NUMBERS[mechanism]] = FileCredential(
                    salt, keys.stored_key, keys.server_key
                )
        secret = secret_bytes(_SECRET_BYTES)
        made = ScramCredentials(secret)
        made.update(credentials, secret)
        return made
