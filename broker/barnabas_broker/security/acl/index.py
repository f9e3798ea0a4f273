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

    __slots__ = ("_lengths", "by_pattern")

    def __init__(self, by_pattern: Mapping[Pattern, Found]) -> None:
        self.by_pattern = by_pattern
        lengths: dict[int, set[int]] = {}
        for resource_type, pattern_type, name in by_pattern:
            if pattern_type == _PREFIXED:
                lengths.setdefault(resource_type, set()).add(len(name))
        # The lengths of prefixes by resource type: only those are looked for.
        self._lengths = {kind: tuple(sorted(found)) for kind, found in lengths.items()}

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
        self._resources = _Patterns[int]({})  # how many ACLs each pattern has

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> AclIndex:
        """The index of some ACLs."""
        return cls().updated(dict.fromkeys(acls, True))

    def updated(self, changes: Mapping[Acl, bool]) -> AclIndex:
        """An index with other ACLs: True for one that it has from now on, False for one less."""
        by_principal: dict[str, dict[Acl, bool]] = {}
        for acl, is_there in changes.items():
            by_principal.setdefault(acl.principal, {})[acl] = is_there
        counts: dict[Pattern, int] = {}
        grants = dict(self._by_principal)
        for principal, changed in by_principal.items():
            entries = _changed_entries(grants.get(principal), changed, counts)
            if entries:
                grants[principal] = _Patterns(entries)
            else:
                grants.pop(principal, None)
        index = AclIndex()
        index._by_principal = grants
        index._resources = _changed_resources(self._resources, counts)
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
    grants: _Grants | None, changed: Mapping[Acl, bool], counts: dict[Pattern, int]
) -> dict[Pattern, tuple[_Entry, ...]]:
    """The entries of a principal after changes; `counts` gets how many more a pattern has."""
    entries = {} if grants is None else dict(grants.by_pattern)
    touched: dict[Pattern, dict[Acl, _Entry]] = {}
    for acl, is_there in changed.items():
        pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
        known = touched.get(pattern)
        if known is None:
            known = touched[pattern] = {one.acl: one for one in entries.get(pattern, ())}
        if is_there == (acl in known):
            continue
        counts[pattern] = counts.get(pattern, 0) + (1 if is_there else -1)
        if is_there:
            is_deny = acl.permission != AclPermission.ALLOW
            known[acl] = _Entry(acl.operation, is_deny, range_of(acl.host), acl)
        else:
            del known[acl]
    for pattern, known in touched.items():
        if known:
            entries[pattern] = tuple(known.values())
        else:
            entries.pop(pattern, None)
    return entries


def _changed_resources(resources: _Patterns[int], more: Mapping[Pattern, int]) -> _Patterns[int]:
    counts = dict(resources.by_pattern)
    for pattern, count in more.items():
        left = counts.get(pattern, 0) + count
        if left:
            counts[pattern] = left
        else:
            counts.pop(pattern, None)
    return _Patterns(counts)


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
