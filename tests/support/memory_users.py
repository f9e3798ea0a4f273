"""`UserGateway` in memory: what brokers know of users, with the overlap of passwords (SEC-27)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from barnabas_client.admin.values.acls import AclBinding
from barnabas_client.errors import BarnabasError
from barnabas_operator.reconcile.user.user_plan import ObservedUser, UserPlan


@dataclass
class MemoryUser:
    rights: set[AclBinding] = field(default_factory=set)
    quotas: dict[str, float] = field(default_factory=dict)
    salt: bytes = b""
    password: str = ""
    former: str = ""


class MemoryUsers:
    """`changes` has the names of the calls that changed something; `error` is raised by all."""

    def __init__(self) -> None:
        self.users: dict[str, MemoryUser] = {}
        self.changes: list[str] = []
        self.error: BarnabasError | None = None

    def user(self, name: str) -> MemoryUser:
        return self.users.setdefault(name, MemoryUser())

    def takes(self, name: str, password: str) -> bool:
        user = self.user(name)
        return password in (user.password, user.former) and bool(password)

    async def observe(self, names: Collection[str]) -> Mapping[str, ObservedUser]:
        self._fail()
        return {
            name: ObservedUser(
                rights=frozenset(self.user(name).rights),
                quotas=dict(self.user(name).quotas),
                has_credential=bool(self.user(name).password),
            )
            for name in names
        }

    async def set_password(self, name: str, password: str, salt: bytes, iterations: int) -> None:
        self._fail()
        assert 4096 <= iterations <= 16384
        user = self.user(name)
        if (user.salt, user.password) == (salt, password):
            return
        user.former = user.password if user.salt == salt else ""
        user.salt, user.password = salt, password
        self.changes.append("password")

    async def remove_credentials(self, name: str) -> None:
        self._fail()
        user = self.user(name)
        user.password = user.former = ""
        self.changes.append("no password")

    async def carry_out(self, name: str, plan: UserPlan) -> None:
        self._fail()
        user = self.user(name)
        user.rights |= plan.given
        user.rights -= plan.taken
        for key, value in plan.quotas.items():
            if value is None:
                user.quotas.pop(key, None)
            else:
                user.quotas[key] = value
        self.changes.append("rights")

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error
