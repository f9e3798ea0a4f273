"""What a set of ACLs decides: an immutable index, of which a change copies a small part. Pure.

ACLs are found by principal, then by pattern, then by operation and address, so a check costs a few
look-ups however many there are, also where one pattern has an ACL for each of thousands of hosts.
The naive twin, which looks at every ACL, is in the tests.

Source: SEC-41, SEC-42; Kafka's StandardAuthorizer. Invariants: an index never changes; the order in
which ACLs were added decides nothing.
Not here: super users and what holds where there is no ACL (`standard_authorizer`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Generic, TypeVar

from barnabas_broker.security.acl.acl import EVERYBODY, WILDCARD, Acl
from barnabas_broker.security.acl.hosts import HostRange, address_of, range_of
from barnabas_protocol.acl import AclOperation, AclPermission, PatternType

Found = TypeVar("Found")
Pattern = tuple[int, int, str]
"""Resource type, pattern type, name."""

WEIGHED_AT_ONCE: Final = 500
"""Patterns that are looked at in some milliseconds."""
_ALL: Final = AclOperation.ALL
_LITERAL: Final = PatternType.LITERAL
_PREFIXED: Final = PatternType.PREFIXED
# An ALLOW of these implies the operation; a DENY implies nothing.
_IMPLYING: Final[Mapping[int, tuple[int, ...]]] = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


class _Hosts:
    """The ACLs of one pattern, operation and permission, found by the address of a client."""

    __slots__ = ("_by_range", "_by_text", "size")

    def __init__(self) -> None:
        # Every host is the text `*`; several ACLs may spell one address.
        self._by_text: Mapping[str, tuple[Acl, ...]] = {}
        # By family and number of bits that do not count, then by the bits that do.
        self._by_range: Mapping[tuple[int, int], Mapping[int, tuple[Acl, ...]]] = {}
        self.size = 0

    def changed(self, changes: Iterable[tuple[Acl, bool]]) -> _Hosts:
        """The same with other ACLs."""
        by_text = dict(self._by_text)
        by_range: dict[tuple[int, int], dict[int, tuple[Acl, ...]]] = {}
        hosts = _Hosts()
        hosts.size = self.size
        for acl, is_there in changes:
            place = range_of(acl.host)
            if isinstance(place, HostRange):
                family = place.bits, place.shift
                if family not in by_range:
                    by_range[family] = dict(self._by_range.get(family, ()))
                hosts.size += _put(by_range[family], place.prefix, acl, is_there)
            else:
                hosts.size += _put(by_text, WILDCARD if place is None else place, acl, is_there)
        hosts._by_text = by_text
        ranges = {**self._by_range, **by_range}
        hosts._by_range = {family: acls for family, acls in ranges.items() if acls}
        return hosts

    def deciding(self, host: str) -> Acl | None:
        """An ACL that holds for a client at an address."""
        found = self._by_text.get(WILDCARD) or self._by_text.get(host)
        if found is not None:
            return found[0]
        address = address_of(host) if self._by_range else None
        if address is None:
            return None
        bits, number = address
        for (family, shift), acls in self._by_range.items():
            if family == bits and (number >> shift) in acls:
                return acls[number >> shift][0]
        return None


Place = TypeVar("Place")


def _put(places: dict[Place, tuple[Acl, ...]], place: Place, acl: Acl, is_there: bool) -> int:
    """Have an ACL at a place or not; returns how many more there are."""
    known = places.get(place, ())
    others = tuple(one for one in known if one != acl)
    acls = (*others, acl) if is_there else others
    if acls:
        places[place] = acls
    else:
        places.pop(place, None)
    return len(acls) - len(known)


_Entries = Mapping[tuple[int, bool], _Hosts]
"""The ACLs of one principal for a pattern, by operation and whether they deny."""


class _Patterns(Generic[Found]):
    """Something for each of some patterns, and which of them apply to a name."""

    __slots__ = ("_length_counts", "_lengths", "by_pattern")

    def __init__(self) -> None:
        self.by_pattern: Mapping[Pattern, Found] = {}
        # How many prefixes of a resource type have a length, and those lengths by type: only
        # prefixes of them are looked for.
        self._length_counts: Mapping[tuple[int, int], int] = {}
        self._lengths: Mapping[int, tuple[int, ...]] = {}

    def changed(self, changes: Mapping[Pattern, Found | None]) -> _Patterns[Found]:
        """The same with something else for some patterns; None for nothing."""
        by_pattern = dict(self.by_pattern)
        counts = dict(self._length_counts)
        for pattern, found in changes.items():
            resource_type, pattern_type, name = pattern
            if pattern_type == _PREFIXED:
                length = (resource_type, len(name))
                more = (found is not None) - (pattern in by_pattern)
                counts[length] = counts.get(length, 0) + more
            if found is not None:
                by_pattern[pattern] = found
            else:
                by_pattern.pop(pattern, None)
        patterns = _Patterns[Found]()
        patterns.by_pattern = by_pattern
        patterns._length_counts = {length: count for length, count in counts.items() if count}
        lengths: dict[int, list[int]] = {}
        for resource_type, size in sorted(patterns._length_counts):
            lengths.setdefault(resource_type, []).append(size)
        patterns._lengths = {kind: tuple(sizes) for kind, sizes in lengths.items()}
        return patterns

    def applying(self, resource_type: int, name: str) -> Iterator[Found]:
        """What there is for each pattern that applies to the name of a resource."""
        by_pattern = self.by_pattern
        for literal in (name, WILDCARD) if name != WILDCARD else (WILDCARD,):
            found = by_pattern.get((resource_type, _LITERAL, literal))
            if found is not None:
                yield found
        yield from self.prefixing(resource_type, name)

    def prefixing(self, resource_type: int, name: str) -> Iterator[Found]:
        """What there is for each prefixed pattern that the name of a resource begins with."""
        by_pattern = self.by_pattern
        size = len(name)
        for length in self._lengths.get(resource_type, ()):
            if length > size:
                return
            found = by_pattern.get((resource_type, _PREFIXED, name[:length]))
            if found is not None:
                yield found


_Grants = _Patterns[_Entries]
"""The ACLs of one principal."""


class AclIndex:
    """The ACLs of one image, as an authorizer looks for them."""

    __slots__ = ("_by_principal", "_resources")

    def __init__(self) -> None:
        self._by_principal: Mapping[str, _Grants] = {}
        self._resources = _Patterns[int]()  # how many ACLs each pattern has

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> AclIndex:
        """The index of some ACLs."""
        return cls().updated(dict.fromkeys(acls, True))

    def updated(self, changes: Mapping[Acl, bool]) -> AclIndex:
        """An index with other ACLs: True for one that it has from now on, False for one less."""
        by_principal: dict[str, dict[Acl, bool]] = {}
        for acl, is_there in changes.items():
            by_principal.setdefault(acl.principal, {})[acl] = is_there
        counts: dict[Pattern, int | None] = {}
        known = self._resources.by_pattern
        grants = dict(self._by_principal)
        for principal, changed in by_principal.items():
            before = grants.get(principal) or _Grants()
            entries = _changed_entries(before, changed)
            for pattern, found in entries.items():
                more = _size(found) - _size(before.by_pattern.get(pattern))
                count = counts[pattern] if pattern in counts else known.get(pattern)
                counts[pattern] = (count or 0) + more or None
            after = before.changed(entries)
            if after.by_pattern:
                grants[principal] = after
            else:
                grants.pop(principal, None)
        index = AclIndex()
        index._by_principal = grants
        index._resources = self._resources.changed(counts)
        return index

    def deciding(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Acl | None:
        """The ACL that decides: a DENY that fits, else an ALLOW that fits; None without either."""
        allowing: Acl | None = None
        denied = (operation, True), (_ALL, True)
        allowed = tuple((of, False) for of in (operation, _ALL, *_IMPLYING.get(operation, ())))
        for who in _each_once(principal):
            grants = self._by_principal.get(who)
            if grants is None:
                continue
            for entries in grants.applying(resource_type, name):
                acl = _deciding(entries, denied, host)
                if acl is not None:
                    return acl
                if allowing is None:
                    allowing = _deciding(entries, allowed, host)
        return allowing

    def has_any(self, resource_type: int, name: str) -> bool:
        """Whether there is an ACL of anybody that is about a resource."""
        return any(True for _ in self._resources.applying(resource_type, name))

    def weighed_somewhere(
        self, principal: str, host: str, operation: int, resource_type: int
    ) -> Generator[None, None, bool]:
        """Whether an ALLOW has a pattern that no DENY dominates (SEC-42).

        Takes long where there are thousands of patterns, so it pauses whenever it has looked at
        `WEIGHED_AT_ONCE` of them; `verdict_of` does not wait.

        The literal `*` dominates all, a literal itself, a prefix all that begin with it. The first
        pattern that nothing dominates ends it, so only who has none makes it look at all.
        """
        every = [
            grants
            for who in _each_once(principal)
            if (grants := self._by_principal.get(who)) is not None
        ]
        denied = (operation, True), (_ALL, True)
        allowed = (operation, False), (_ALL, False)

        def is_denied(entries: _Entries | None) -> bool:
            return entries is not None and _deciding(entries, denied, host) is not None

        def is_literal_denied(name: str) -> bool:
            pattern = (resource_type, _LITERAL, name)
            return any(is_denied(grants.by_pattern.get(pattern)) for grants in every)

        if is_literal_denied(WILDCARD):
            return False
        for at, (pattern, entries) in enumerate(_all_patterns(every), 1):
            if not at % WEIGHED_AT_ONCE:
                yield
            kind, pattern_type, name = pattern
            if kind != resource_type or _deciding(entries, allowed, host) is None:
                continue
            if pattern_type == _LITERAL and name == WILDCARD:
                return True
            if pattern_type == _LITERAL and is_literal_denied(name):
                continue
            prefixing = chain.from_iterable(one.prefixing(kind, name) for one in every)
            if not any(is_denied(found) for found in prefixing):
                return True
        return False


def verdict_of(weighing: Generator[None, None, bool]) -> bool:
    """What comes of all steps, taken at once."""
    while True:
        try:
            next(weighing)
        except StopIteration as end:
            return bool(end.value)


def _all_patterns(every: Iterable[_Grants]) -> Iterator[tuple[Pattern, _Entries]]:
    for grants in every:
        yield from grants.by_pattern.items()


def _each_once(principal: str) -> tuple[str, ...]:
    return (principal, EVERYBODY) if principal != EVERYBODY else (EVERYBODY,)


def _deciding(entries: _Entries, of: Iterable[tuple[int, bool]], host: str) -> Acl | None:
    """The first ACL of some operations that holds for a client at an address."""
    for kind in of:
        hosts = entries.get(kind)
        acl = None if hosts is None else hosts.deciding(host)
        if acl is not None:
            return acl
    return None


def _size(entries: _Entries | None) -> int:
    return sum(hosts.size for hosts in entries.values()) if entries else 0


def _changed_entries(
    grants: _Grants, changed: Mapping[Acl, bool]
) -> dict[Pattern, _Entries | None]:
    """What a principal has from now on for each pattern that changes touch."""
    touched: dict[Pattern, dict[tuple[int, bool], list[tuple[Acl, bool]]]] = {}
    for acl, is_there in changed.items():
        pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
        kind = acl.operation, acl.permission != AclPermission.ALLOW
        touched.setdefault(pattern, {}).setdefault(kind, []).append((acl, is_there))
    found: dict[Pattern, _Entries | None] = {}
    for pattern, kinds in touched.items():
        entries: dict[tuple[int, bool], _Hosts] = dict(grants.by_pattern.get(pattern) or {})
        for kind, changes in kinds.items():
            hosts = entries.pop(kind, None) or _Hosts()
            after = hosts.changed(changes)
            if after.size:
                entries[kind] = after
        found[pattern] = entries or None
    return found
