"""Users from their resource to brokers and files, on an API server in memory."""

import asyncio
import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from barnabas_client.errors import RejectedError, RetriableError
from barnabas_operator.certificates.authority import new_authority, subject_of
from barnabas_operator.certificates.authority_change import HeldAuthority
from barnabas_operator.certificates.authority_secret import held_data
from barnabas_operator.certificates.pem import certificates_of
from barnabas_operator.kubernetes.kinds import BROKER, CONFIG_MAP, NAMESPACE, SECRET, USER, Kind
from barnabas_operator.reconcile.user.user_reconciler import UserReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.user_spec import UserSpec
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache
from tests.operator.user_manifests import rights, user
from tests.support.fake_kubernetes_store import FakeStore
from tests.support.memory_users import MemoryUsers
from tests.support.simulated_clock import HandClock
from tests.support.store_api import StoreApi
from tests.support.willing_brokers import AllBrokers

KEY = Key(kind=KeyKind.USERS, namespace="kafka", name="demo")
SCRAM = "scram-sha-512"


class Pool(AllBrokers):
    """Brokers that have not answered for a time."""

    away_seconds = 0.0

    def unreachable_seconds(self, namespace: str, name: str) -> float:
        return self.away_seconds


class World:
    """A Broker with security in `kafka`, and Users."""

    def __init__(self, **security: Any) -> None:
        self.clock = HandClock()
        self.store = FakeStore(lambda: self.now)
        self.api = StoreApi(self.store)
        for namespace in ("kafka", "shop"):
            self.store.create(NAMESPACE, "", {"metadata": {"name": namespace}})
        spec = {"security": {"enabled": True, **security}}
        self.store.create(
            BROKER, "kafka", {"metadata": {"name": "demo", "namespace": "kafka"}, "spec": spec}
        )
        self.clients = new_authority("clients", self.now)
        self.cluster = new_authority("cluster", self.now)
        for name, authority in (("cluster", self.cluster), ("clients", self.clients)):
            data = held_data(HeldAuthority(signer=authority))
            self.store.create(
                SECRET,
                "kafka",
                {"metadata": {"name": f"demo-{name}-ca", "namespace": "kafka"}, "data": data},
            )
        self.users, self.pool = MemoryUsers(), Pool()
        self.start()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.wall_ms() / 1000, UTC)

    def start(self) -> None:
        """Another operator: nothing but the API server remembers."""
        pool: Any = self.pool
        self.reconciler = UserReconciler(
            self.api,
            pool,
            OperatorSettings(),
            self.clock,
            WatchCache(self.api, lambda: self.clock.monotonic_ms() / 1000, list_seconds=0),
            make_gateway=lambda admin: self.users,
        )

    def put(self, manifest: dict[str, Any]) -> None:
        self.store.create(USER, manifest["metadata"]["namespace"], manifest)

    def run(self, *, passes: int = 3) -> None:
        for _ in range(passes):
            asyncio.run(self._reconcile())
            self.clock.now_ms += 61_000

    async def _reconcile(self) -> None:
        await self.reconciler.reconcile(KEY)

    def status(self, name: str = "alice", namespace: str = "kafka") -> dict[str, Any]:
        found: dict[str, Any] = self.store.get(USER, namespace, name).get("status") or {}
        return found

    def ready(self, name: str = "alice", namespace: str = "kafka") -> tuple[str, str]:
        conditions = self.status(name, namespace)["conditions"]
        (found,) = (one for one in conditions if one["type"] == "Ready")
        return found["status"], found["reason"]

    def files(self, kind: Kind = SECRET, name: str = "alice", namespace: str = "kafka") -> Any:
        data: Mapping[str, str] = self.store.get(kind, namespace, name)["data"]
        if kind is CONFIG_MAP:
            return dict(data)
        return {key: base64.b64decode(text).decode() for key, text in data.items()}

    def is_there(self, kind: Kind, name: str, namespace: str = "kafka") -> bool:
        return (namespace, name) in self.store.objects[kind]


def test_a_user_with_a_password_gets_all_that_a_client_needs() -> None:
    """SEC-84, SEC-85: rights, quotas, credential, Secret with every form of the settings."""
    world = World()
    manifest = user(auth=SCRAM, authorization=rights("orders."), quotas={"producerByteRate": 1000})
    world.put(manifest)
    world.run()
    assert world.ready() == ("True", "Applied")
    found = world.users.user("alice")
    assert found.rights == UserSpec.from_manifest(manifest).rights
    assert found.quotas == {"producer_byte_rate": 1000.0}
    files = world.files()
    assert set(files) == {
        "bootstrap.servers",
        "ca.crt",
        "username",
        "password",
        "client.properties",
        "librdkafka.conf",
        "client.env",
    }
    assert world.users.takes("alice", files["password"])
    assert certificates_of(files["ca.crt"]) == (world.cluster.certificate,)
    assert files["bootstrap.servers"] == "demo-bootstrap.kafka.svc:9093"
    assert "ssl.truststore.location=/etc/barnabas/user/ca.crt\n" in files["client.properties"]
    assert f'password="{files["password"]}";' in files["client.properties"]
    assert "sasl.mechanism=SCRAM-SHA-512\n" in files["librdkafka.conf"]
    status = world.status()
    assert (status["principal"], status["acls"], status["secret"]) == ("User:alice", 1, "alice")
    assert files["password"] not in str(world.store.get(USER, "kafka", "alice"))


@pytest.mark.parametrize("auth", [SCRAM, "tls", "none"])
def test_an_idle_user_causes_no_write_and_no_change(auth: str) -> None:
    """SEC-85: strimzi#8552 rewrote a password every few minutes."""
    world = World()
    world.put(user(auth=auth, authorization=rights("orders.")))
    world.run()
    assert world.ready() == ("True", "Applied")
    version, changes = world.store.version, list(world.users.changes)
    world.start()
    world.run(passes=5)
    assert (world.store.version, world.users.changes) == (version, changes)


def test_a_certificate_is_signed_by_the_clients_authority_and_renewed_in_time() -> None:
    """SEC-81, SEC-84: the name is the common name; a new one at two thirds, the key with it."""
    world = World()
    world.put(user(auth="tls"))
    world.run()
    first = world.files()
    (leaf,) = certificates_of(first["user.crt"])
    assert subject_of(leaf) == "CN=alice"
    assert world.clients.has_signed(leaf)
    assert first["user.pem"] == first["user.key"] + first["user.crt"]
    assert first["bootstrap.servers"] == "demo-bootstrap.kafka.svc:9097"
    assert "security.protocol=SSL\n" in first["client.properties"]
    assert world.status()["expires"] == f"{leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    world.clock.now_ms += int(timedelta(days=61).total_seconds() * 1000)
    world.run()
    assert world.files()["user.crt"] != first["user.crt"]
    assert world.users.changes == []


def test_pods_of_a_service_account_need_no_secret() -> None:
    """SEC-29, SEC-85: a ConfigMap and the snippet for the pod."""
    world = World()
    account = {"type": "serviceAccount", "serviceAccount": {"name": "app", "namespace": "shop"}}
    world.put(user(auth=account, authorization=rights("orders.")))
    world.run()
    files = world.files(CONFIG_MAP)
    assert "audience: barnabas:kafka/demo" in files["pod.yaml"]
    assert "sasl.mechanism=OAUTHBEARER" in files["client.properties"]
    assert not world.is_there(SECRET, "alice")
    principal = "User:system:serviceaccount:shop:app"
    assert world.status()["principal"] == principal
    assert {one.principal for one in world.users.user(principal[5:]).rights} == {principal}


def test_a_password_of_ones_own_comes_from_ones_own_namespace_and_is_followed() -> None:
    """SEC-86: a User of another namespace cannot have the Broker's namespace read for it."""
    world = World(userNamespaces=[{"name": "shop", "prefixes": ["shop."]}])
    secret = {"metadata": {"name": "mine"}, "data": {"password": _encoded("hunter2")}}
    world.store.create(SECRET, "kafka", secret)
    auth = {"type": SCRAM, "passwordSecretRef": {"name": "mine"}}
    world.put(user(auth=auth))
    world.put(user("bob", "shop", auth=auth))
    world.run()
    assert world.users.takes("alice", "hunter2")
    assert world.ready("bob", "shop") == ("False", "Waiting")
    assert not world.users.user("shop:bob").password
    changed = {"data": {"password": _encoded("other")}}
    world.store.update(SECRET, "kafka", "mine", lambda old: {**old, **changed})
    world.run()
    assert world.users.takes("alice", "other")
    assert not world.users.takes("alice", "hunter2")
    assert world.files()["password"] == "other"


def test_deletion_takes_credential_rights_and_quotas_away() -> None:
    """SEC-84: and what others added to the user by hand."""
    world = World()
    world.put(user(auth=SCRAM, authorization=rights("a."), quotas={"consumerByteRate": 5}))
    world.run()
    world.users.user("alice").quotas["request_percentage"] = 1.0
    world.store.delete(USER, "kafka", "alice")
    assert world.is_there(USER, "alice")
    world.run()
    assert not world.is_there(USER, "alice")
    found = world.users.user("alice")
    assert (found.rights, found.quotas, found.password) == (set(), {}, "")


def test_a_user_goes_although_brokers_are_away_but_not_at_once() -> None:
    """operator.md 2: no namespace hangs for a finalizer; an event says what stays."""
    world = World()
    world.put(user(auth=SCRAM))
    world.run()
    world.store.delete(USER, "kafka", "alice")
    world.users.error = RetriableError("away")
    asyncio.run(world._reconcile())
    assert world.is_there(USER, "alice")
    world.pool.away_seconds = 100
    world.run()
    assert not world.is_there(USER, "alice")


def test_drift_is_reverted_or_told() -> None:
    """SEC-84: driftPolicy."""
    world = World()
    world.put(user("alice", auth=SCRAM))
    world.put(user("bob", auth=SCRAM, driftPolicy="Warn"))
    world.run()
    extra = UserSpec.from_manifest(user(authorization=rights("x."))).rights
    for name in ("alice", "bob"):
        world.users.user(name).rights |= extra
    world.run()
    assert world.users.user("alice").rights == set()
    assert world.users.user("bob").rights == extra
    assert world.status("bob")["drift"] == "allow READ on topic x.*"


def test_a_user_that_is_not_admitted_any_more_loses_everything() -> None:
    """SEC-86: the list is looked at each time, not only when a User is made."""
    world = World(userNamespaces=[{"name": "shop", "prefixes": ["shop."]}])
    world.put(user("bob", "shop", auth=SCRAM, authorization=rights("shop.orders")))
    world.put(user("eve", "shop", auth=SCRAM, authorization=rights("orders.")))
    world.run()
    assert world.ready("bob", "shop") == ("True", "Applied")
    assert world.ready("eve", "shop") == ("False", "NotAdmitted")
    assert not world.users.user("shop:eve").password
    change = {"spec": {"security": {"enabled": True}}}
    world.store.update(BROKER, "kafka", "demo", lambda old: {**old, **change})
    world.run()
    assert world.ready("bob", "shop") == ("False", "NotAdmitted")
    found = world.users.user("shop:bob")
    assert (found.rights, found.password) == (set(), "")


def test_the_oldest_of_two_users_of_one_principal_speaks_for_it() -> None:
    """operator.md 2: oldest wins; the other one takes nothing along when it goes."""
    world = World()
    world.put(user("alice", auth=SCRAM, authorization=rights("a.")))
    later = user("second", auth=SCRAM, userName="alice", authorization=rights("b."))
    later["metadata"]["creationTimestamp"] = "2099-01-01T00:00:00Z"
    world.put(later)
    world.store.update(
        USER,
        "kafka",
        "second",
        lambda old: {
            **old,
            "metadata": {**old["metadata"], "creationTimestamp": "2099-01-01T00:00:00Z"},
        },
    )
    world.run()
    assert world.ready("second") == ("False", "ResourceConflict")
    assert {one.resource_name for one in world.users.user("alice").rights} == {"a."}
    world.store.delete(USER, "kafka", "second")
    world.run()
    assert world.ready("alice") == ("True", "Applied")
    assert world.users.user("alice").password


def test_a_secret_of_somebody_else_is_never_touched() -> None:
    """SEC-85: a User names a Secret, and gets nothing of what is in it."""
    world = World()
    theirs = {"metadata": {"name": "alice"}, "data": {"password": _encoded("theirs")}}
    world.store.create(SECRET, "kafka", theirs)
    world.put(user(auth=SCRAM))
    world.run()
    assert world.ready() == ("False", "NotOurs")
    assert world.files() == {"password": "theirs"}
    assert not world.users.takes("alice", "theirs")


def test_another_name_of_the_secret_moves_it() -> None:
    """SEC-85: what was written under the former name goes."""
    world = World()
    world.put(user(auth="tls"))
    world.run()
    change = {"connectionSecret": {"name": "other", "mountPath": "/kafka"}}
    world.store.update(
        USER, "kafka", "alice", lambda old: {**old, "spec": {**old["spec"], **change}}
    )
    world.run()
    assert not world.is_there(SECRET, "alice")
    assert "/kafka/user.pem" in world.files(name="other")["client.properties"]


def test_a_broker_without_security_has_no_users() -> None:
    """SEC-80: said, instead of credentials that nobody asks for."""
    world = World()
    change = {"spec": {}}
    world.store.update(BROKER, "kafka", "demo", lambda old: {**old, **change})
    world.put(user(auth=SCRAM))
    world.run()
    assert world.ready() == ("False", "SecurityIsOff")
    assert world.users.changes == []


def test_a_paused_user_is_left_alone_and_a_refusal_is_told() -> None:
    """operator.md 1: paused; what brokers refuse stands in the status and tries no other User."""
    world = World()
    world.put(user("alice", auth=SCRAM, authorization=rights("a."), paused=True))
    world.run()
    assert world.users.changes == []
    assert world.ready() == ("False", "Paused")

    class Refusing(MemoryUsers):
        async def set_password(
            self, name: str, password: str, salt: bytes, iterations: int
        ) -> None:
            raise RejectedError("not this one")

    other = World()
    other.users = Refusing()
    other.put(user(auth=SCRAM))
    other.put(user("bob", auth="none", authorization=rights("b.")))
    other.run()
    assert other.ready() == ("False", "Refused")
    assert other.ready("bob") == ("True", "Applied")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
