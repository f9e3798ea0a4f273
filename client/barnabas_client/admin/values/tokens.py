"""Values of `admin.tokens`: delegation tokens (KIP-48)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Principal(NamedTuple):
    """Who: `User:alice`."""

    type: str
    name: str

    @classmethod
    def user(cls, name: str) -> Principal:
        """A user."""
        return cls("User", name)

    def __str__(self) -> str:
        """Return the form that ACLs use."""
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token; the HMAC is the password of its user, whose name is the token's id."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: Principal
    requester: Principal | None = None
    issued_at_ms: int
    expires_at_ms: int
    max_lifetime_ends_at_ms: int
    renewers: tuple[Principal, ...] = ()
