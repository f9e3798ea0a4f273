"""Values of `admin.quotas`: whom a quota limits, and filters of quotas."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple


class _Default:
    """The mark for "all that have no quota of their own"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default()


class QuotaEntity(NamedTuple):
    """Whom a quota limits: (type, name) pairs in order of the type, name None for the default.

    Made by `QuotaEntity.of(user="alice", client_id=DEFAULT)`.
    """

    components: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(
        cls,
        *,
        user: str | _Default | None = None,
        client_id: str | _Default | None = None,
        ip: str | _Default | None = None,
    ) -> QuotaEntity:
        """An entity of the parts that are given; `DEFAULT` is who has no quota of their own."""
        given = {"user": user, "client-id": client_id, "ip": ip}
        return cls.from_parts(
            {
                kind: None if isinstance(name, _Default) else name
                for kind, name in given.items()
                if name is not None
            }
        )

    @classmethod
    def from_parts(cls, parts: dict[str, str | None]) -> QuotaEntity:
        """An entity of parts as the wire names them."""
        return cls(tuple(sorted(parts.items(), key=lambda part: part[0])))

    def __str__(self) -> str:
        """Return what an error message shows."""
        return ", ".join(f"{kind} {name or '(default)'}" for kind, name in self.components)


class QuotaMatch(IntEnum):
    """How a part of an entity is compared; the numbers are the wire's."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Selects entities by one of their parts (`user`, `client-id`, `ip`)."""

    entity_type: str
    match: QuotaMatch = QuotaMatch.ANY
    name: str | None = None

    @classmethod
    def exact(cls, entity_type: str, name: str) -> QuotaFilter:
        """The part has this name."""
        return cls(entity_type, QuotaMatch.EXACT, name)

    @classmethod
    def default(cls, entity_type: str) -> QuotaFilter:
        """The part is the default."""
        return cls(entity_type, QuotaMatch.DEFAULT)

    @classmethod
    def any(cls, entity_type: str) -> QuotaFilter:
        """The part is there, with any name or as the default."""
        return cls(entity_type, QuotaMatch.ANY)
