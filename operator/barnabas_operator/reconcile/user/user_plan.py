"""What is to be done about the rights and quotas of one user, from what brokers have. Pure.

Not here: passwords (`password.py`), who may have what (`user_limits.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from barnabas_client.admin.values.acls import AclBinding
from barnabas_operator.user_spec import UserDriftPolicy, UserSpec


def _nothing() -> Mapping[str, float | None]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedUser:
    """What brokers have of a user. `has_credential` is for SCRAM-SHA-512, `credentials` for all.

    `iterations` are those of the former.
    """

    rights: frozenset[AclBinding] = frozenset()
    quotas: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    has_credential: bool = False
    has_other_credentials: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether brokers know nothing of the user any more."""
        return not (self.rights or self.quotas or self.has_credential or self.has_other_credentials)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPlan:
    """Rights first given, then taken, so that none is missing in between.

    `quotas` are to be set, or removed with None. `drift` is what is there undeclared and stays.
    """

    given: frozenset[AclBinding] = frozenset()
    taken: frozenset[AclBinding] = frozenset()
    quotas: Mapping[str, float | None] = field(default_factory=_nothing)
    drift: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether nothing is to be done."""
        return not (self.given or self.taken or self.quotas)


def plan_user(spec: UserSpec, observed: ObservedUser) -> UserPlan:
    """For a User that stays."""
    undeclared = observed.rights - spec.rights
    foreign = sorted(observed.quotas.keys() - spec.quotas.keys())
    changed: dict[str, float | None] = {
        name: value for name, value in spec.quotas.items() if observed.quotas.get(name) != value
    }
    reverts = spec.drift_policy is UserDriftPolicy.REVERT
    if reverts:
        changed.update(dict.fromkeys(foreign))
    drift = () if reverts else (*sorted(map(right_text, undeclared)), *foreign)
    return UserPlan(
        given=spec.rights - observed.rights,
        taken=undeclared if reverts else frozenset(),
        quotas=MappingProxyType(changed),
        drift=drift,
    )


def plan_removal(observed: ObservedUser) -> UserPlan:
    """For a User that is deleted: all that brokers have of it goes."""
    return UserPlan(
        taken=observed.rights, quotas=MappingProxyType(dict.fromkeys(sorted(observed.quotas)))
    )


def right_text(right: AclBinding) -> str:
    """A right for people."""
    pattern = "*" if right.pattern_type.name == "PREFIXED" else ""
    host = "" if right.host == "*" else f" from {right.host}"
    return (
        f"{right.permission.name.lower()} {right.operation.name} on"
        f" {right.resource_type.name.lower()} {right.resource_name}{pattern}{host}"
    )
