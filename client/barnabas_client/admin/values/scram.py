"""Values of `admin.scram`: credentials of users for SASL/SCRAM."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas_protocol.wire_enum import WireEnum

# Kafka refuses less; RFC 7677 asks for at least as many with SHA-256.
ITERATIONS_MIN = 4096


class ScramMechanism(WireEnum):
    """The numbers are the wire's."""

    UNKNOWN = 0
    SHA_256 = 1
    SHA_512 = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """A credential, without its secrets."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A credential to be made or replaced; the password does not leave this process."""

    user: str
    mechanism: ScramMechanism = ScramMechanism.SHA_512
    password: str = field(repr=False)
    iterations: int = ITERATIONS_MIN
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """A credential to be removed."""

    user: str
    mechanism: ScramMechanism
