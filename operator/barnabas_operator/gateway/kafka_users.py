"""What brokers have of users: credentials (50, 51), rights (29 to 31), quotas (48, 49).

Not here: deciding what of it should change (`reconcile/user/`). Brokers without an authorizer know
no rights, and a plan for them has none to give.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.acls import AclBinding, AclFilter
from barnabas_client.admin.values.quotas import QuotaEntity, QuotaFilter
from barnabas_client.admin.values.scram import ScramDeletion, ScramMechanism, ScramUpsertion
from barnabas_client.errors import NotFoundError, UnsupportedError
from barnabas_operator.reconcile.user.user_plan import ObservedUser, UserPlan

_MECHANISM = ScramMechanism.SHA_512


class UserGateway(Protocol):
    """The users of one cluster; each method raises BarnabasError."""

    async def observe(self, names: Collection[str]) -> Mapping[str, ObservedUser]:
        """What there is of these users, by name."""
        ...

    async def set_password(self, name: str, password: str, salt: bytes, iterations: int) -> None:
        """Have brokers take a password."""
        ...

    async def remove_credentials(self, name: str) -> None:
        """Have brokers take no password of the user any more."""
        ...

    async def carry_out(self, name: str, plan: UserPlan) -> None:
        """Give and take rights, set and remove quotas."""
        ...


class KafkaUsers:
    """`UserGateway` over the admin client."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def observe(self, names: Collection[str]) -> Mapping[str, ObservedUser]:
        """Three requests for all of them. Raises: BarnabasError."""
        rights = await self._rights()
        quotas = await self._quotas()
        described = await self._admin.scram.describe(names)
        for error in described.errors.values():
            if not isinstance(error, NotFoundError):
                raise error
        found: dict[str, ObservedUser] = {}
        for name in names:
            credentials = described.successes.get(name, ())
            found[name] = ObservedUser(
                rights=frozenset(rights.get(f"User:{name}", ())),
                quotas=MappingProxyType(quotas.get(name, {})),
                has_credential=any(one.mechanism is _MECHANISM for one in credentials),
                has_other_credentials=any(one.mechanism is not _MECHANISM for one in credentials),
            )
        return found

    async def set_password(self, name: str, password: str, salt: bytes, iterations: int) -> None:
        """Only the salted password travels. Raises: BarnabasError."""
        change = ScramUpsertion(
            user=name, mechanism=_MECHANISM, password=password, iterations=iterations, salt=salt
        )
        (await self._admin.scram.alter([change])).unwrap()

    async def remove_credentials(self, name: str) -> None:
        """Of both mechanisms. Raises: BarnabasError."""
        described = await self._admin.scram.describe([name])
        credentials = described.successes.get(name, ())
        changes = [ScramDeletion(user=name, mechanism=one.mechanism) for one in credentials]
        (await self._admin.scram.alter(changes)).unwrap()

    async def carry_out(self, name: str, plan: UserPlan) -> None:
        """Rights are given before others are taken. Raises: BarnabasError."""
        if plan.given:
            (await self._admin.acls.create(_sorted(plan.given))).unwrap()
        if plan.taken:
            (await self._admin.acls.delete(map(_filter, _sorted(plan.taken)))).unwrap()
        if plan.quotas:
            entity = QuotaEntity.of(user=name)
            (await self._admin.quotas.alter({entity: dict(plan.quotas)})).unwrap()

    async def _rights(self) -> dict[str, list[AclBinding]]:
        found: dict[str, list[AclBinding]] = {}
        try:
            bindings = await self._admin.acls.list()
        except UnsupportedError:
            return found
        for one in bindings:
            found.setdefault(one.principal, []).append(one)
        return found

    async def _quotas(self) -> dict[str, dict[str, float]]:
        """Of users alone: what goes by client id, too, is somebody else's business."""
        listed = await self._admin.quotas.list([QuotaFilter.any("user")], strict=True)
        return {
            name: dict(values)
            for entity, values in listed.items()
            for kind, name in entity.components
            if kind == "user" and name is not None
        }


def _sorted(rights: Iterable[AclBinding]) -> list[AclBinding]:
    return sorted(rights, key=str)


def _filter(right: AclBinding) -> AclFilter:
    """The filter that means one right and no other."""
    return AclFilter(
        resource_type=right.resource_type,
        resource_name=right.resource_name,
        pattern_type=right.pattern_type,
        principal=right.principal,
        host=right.host,
        operation=right.operation,
        permission=right.permission,
    )
