"""All ACLs of an image, in an immutable table of which a change copies a small part.

Each has an id, which is the digest of what it says: the same ACL cannot be there twice, and records
that remove thousands are short. Pure. Invariant: a table never changes.
Not here: how an ACL is found when it decides (`security.acl.index`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Set
from typing import Final

from barnabas_broker.metadata.wire import RecordWriter
from barnabas_broker.security.acl.acl import Acl

ID_BYTES: Final = 16
_SHARD_COUNT: Final = 256


def write_acl(out: RecordWriter, acl: Acl) -> None:
    """Append the fields of an ACL."""
    out.unsigned(acl.resource_type)
    out.string(acl.resource_name)
    out.unsigned(acl.pattern_type)
    out.string(acl.principal)
    out.string(acl.host)
    out.unsigned(acl.operation)
    out.unsigned(acl.permission)


def id_of(acl: Acl) -> bytes:
    """The id of an ACL: of what it says, and of nothing else."""
    out = RecordWriter()
    write_acl(out, acl)
    return hashlib.blake2b(out.buffer, digest_size=ID_BYTES).digest()


class AclTable(Set[Acl]):
    """ACLs, found by their ids."""

    __slots__ = ("_length", "_shards")

    def __init__(self) -> None:
        self._shards: list[dict[bytes, Acl]] = [{}] * _SHARD_COUNT
        self._length = 0

    def updated(self, changes: Mapping[bytes, Acl | None]) -> AclTable:
        """A table with other ACLs: what an id stands for from now on, None for nothing."""
        table = AclTable()
        shards = table._shards = list(self._shards)
        table._length = self._length
        copied: set[int] = set()
        for acl_id, acl in changes.items():
            place = acl_id[0]
            if place not in copied:
                copied.add(place)
                shards[place] = dict(shards[place])
            shard = shards[place]
            table._length -= acl_id in shard
            if acl is None:
                shard.pop(acl_id, None)
            else:
                shard[acl_id] = acl
                table._length += 1
        return table

    def get(self, acl_id: bytes) -> Acl | None:
        """The ACL of an id; None where there is none."""
        return self._shards[acl_id[0]].get(acl_id)

    def items(self) -> Iterator[tuple[bytes, Acl]]:
        """All ids with their ACLs."""
        for shard in self._shards:
            yield from shard.items()

    def changes_to(self, other: AclTable) -> dict[bytes, Acl | None]:
        """What makes another table of this one, as `updated` takes it."""
        changes: dict[bytes, Acl | None] = {}
        for before, after in zip(self._shards, other._shards, strict=True):
            if before is not after:
                changes.update((acl_id, None) for acl_id in before if acl_id not in after)
                changes.update(item for item in after.items() if before.get(item[0]) != item[1])
        return changes

    def __contains__(self, acl: object) -> bool:
        return isinstance(acl, Acl) and self.get(id_of(acl)) is not None

    def __iter__(self) -> Iterator[Acl]:
        for shard in self._shards:
            yield from shard.values()

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AclTable) and self._shards == other._shards

    def __hash__(self) -> int:
        return hash(self._length)


NO_ACLS: Final = AclTable()
