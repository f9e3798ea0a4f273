"""What a set of ACLs decides: an immutable index, of which a change copies a small part. Pure.

ACLs are found by principal, then by pattern, so a check costs a few look-ups however many there
are. The naive twin, which looks at every ACL, is in the tests.

Source: SEC-41, SEC-42; Kafka's StandardAuthorizer. Invariants: an index never changes; the order in
which ACLs were added decides nothing.
Not here: super users and what holds where there is no ACL (`standard_authorizer`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from barnabas_broker.security.acl.acl import EVERYBODY, WILDCARD, Acl
from barnabas_broker.security.acl.hosts import HostRange, address_of, range_of
from barnabas_protocol.acl import AclOperation, AclPermission, PatternType

Found = TypeVar("Found")
Pattern = tuple[int, int, str]
"""Resource type, pattern type, name."""

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


class _Entry(NamedTuple):
    """One ACL of a pattern, ready to be compared."""

    operation: int
    is_deny: bool
    hosts: HostRange | str | None  # as of `range_of`
    acl: Acl

    def is_from(self, host: str) -> bool:
        """Whether it holds for a client at an address."""
        hosts = self.hosts
        if hosts is None:
            return True
        return hosts == host if isinstance(hosts, str) else hosts.has(address_of(host))


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
        size = len(name)
        for length in self._lengths.get(resource_type, ()):
            if length > size:
                return
            found = by_pattern.get((resource_type, _PREFIXED, name[:length]))
            if found is not None:
                yield found


_Grants = _Patterns[tuple[_Entry, ...]]
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
                more = len(found or ()) - len(before.by_pattern.get(pattern, ()))
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
        implying = _IMPLYING.get(operation, ())
        for who in _each_once(principal):
            grants = self._by_principal.get(who)
            if grants is None:
                continue
            for entries in grants.applying(resource_type, name):
                for entry in entries:
                    of = entry.operation
                    if of not in (operation, _ALL) and (entry.is_deny or of not in implying):
                        continue
                    if entry.is_deny:
                        if entry.is_from(host):
                            return entry.acl
                    elif allowing is None and entry.is_from(host):
                        allowing = entry.acl
        return allowing

    def has_any(self, resource_type: int, name: str) -> bool:
        """Whether there is an ACL of anybody that is about a resource."""
        return any(True for _ in self._resources.applying(resource_type, name))

    def is_allowed_somewhere(
        self, principal: str, host: str, operation: int, resource_type: int
    ) -> bool:
        """Whether an ALLOW has a pattern that no DENY dominates (SEC-42).

        The literal `*` dominates all, a literal itself, a prefix all that begin with it.
        """
        allowed: set[Pattern] = set()
        denied: set[Pattern] = set()
        for who in _each_once(principal):
            grants = self._by_principal.get(who)
            for pattern, entries in () if grants is None else grants.by_pattern.items():
                if pattern[0] != resource_type:
                    continue
                for entry in entries:
                    if entry.operation in (operation, _ALL) and entry.is_from(host):
                        (denied if entry.is_deny else allowed).add(pattern)
        everything = (resource_type, _LITERAL, WILDCARD)
        if everything in denied or not allowed:
            return False
        if everything in allowed:
            return True
        prefixes = _outermost(name for _, kind, name in denied if kind == _PREFIXED)
        return any(
            not _begins_with_one(name, prefixes)
            and not (kind == _LITERAL and (resource_type, kind, name) in denied)
            for _, kind, name in allowed
        )


def _each_once(principal: str) -> tuple[str, ...]:
    return (principal, EVERYBODY) if principal != EVERYBODY else (EVERYBODY,)


def _changed_entries(
    grants: _Grants, changed: Mapping[Acl, bool]
) -> dict[Pattern, tuple[_Entry, ...] | None]:
    """What a principal has from now on for each pattern that changes touch."""
    touched: dict[Pattern, dict[Acl, _Entry]] = {}
    for acl, is_there in changed.items():
        pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
        known = touched.get(pattern)
        if known is None:
            entries = grants.by_pattern.get(pattern, ())
            known = touched[pattern] = {one.acl: one for one in entries}
        if not is_there:
            known.pop(acl, None)
        elif acl not in known:
            is_deny = acl.permission != AclPermission.ALLOW
            known[acl] = _Entry(acl.operation, is_deny, range_of(acl.host), acl)
    return {pattern: tuple(known.values()) or None for pattern, known in touched.items()}


def _outermost(prefixes: Iterable[str]) -> list[str]:
    """Those of some prefixes that begin with no other, sorted."""
    found: list[str] = []
    for prefix in sorted(prefixes):
        if not (found and prefix.startswith(found[-1])):
            found.append(prefix)
    return found


def _begins_with_one(name: str, prefixes: list[str]) -> bool:
    """Whether a name begins with one of the outermost prefixes, which can only be one place."""
    place = bisect_right(prefixes, name)
    return place > 0 and name.startswith(prefixes[place - 1])
