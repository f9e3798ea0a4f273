"""Users from their resource to brokers and files, on an API server in memory."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
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


def test_an_authority_that_has_ended_is_told_and_stops_no_other_user() -> None:
    """One that was given is not followed by itself; each pass over all Users failed then."""
    world = World()
    world.put(user(auth="tls"))
    world.put(user("bob", auth=SCRAM))
    world.run()
    world.clock.now_ms += int(timedelta(days=5 * 366).total_seconds() * 1000)
    world.put(user("carol", auth=SCRAM))
    world.run()
    assert world.ready()[0] == "False"
    assert "has ended at" in str(world.status()["conditions"])
    assert world.ready("bob")[0] == world.ready("carol")[0] == "True"


@pytest.mark.parametrize("auth", [SCRAM, "tls"])
def test_a_user_trusts_another_authority_as_soon_as_its_broker_tells_of_it(auth: Any) -> None:
    """SEC-81: looked at only once a minute, its Secret could come to a pod after the settle time,
    when brokers show what the pod does not trust yet."""
    world = World()

    def tell(step: str) -> None:
        told = {"phase": "Secure", "authorities": [{"name": "cluster", "step": step}]}
        world.store.update(
            BROKER,
            "kafka",
            "demo",
            lambda old: {**old, "status": {"security": told}},
            is_status=True,
        )

    tell("Stable")
    world.put(user(auth=auth))
    world.run()
    asyncio.run(world._reconcile())
    following = new_authority("following", world.now)
    held = HeldAuthority(signer=world.cluster, next=following, since=world.now)
    world.store.update(
        SECRET, "kafka", "demo-cluster-ca", lambda old: {**old, "data": held_data(held)}
    )
    asyncio.run(world._reconcile())
    assert world.files()["ca.crt"] == world.cluster.pair.chain  # not due yet
    tell("Distributing")
    asyncio.run(world._reconcile())
    assert world.files()["ca.crt"] == held.bundle
    assert len(certificates_of(held.bundle)) == 2


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


def change_user(world: World, **spec: Any) -> None:
    world.store.update(USER, "kafka", "alice", lambda old: {**old, "spec": {**old["spec"], **spec}})


@pytest.mark.parametrize("is_let_in", [True, False])
def test_a_user_whose_spec_is_not_valid_any_more_is_deleted_like_any_other(
    is_let_in: bool,
) -> None:
    """SEC-84: the schema takes an overlap that is too long. The User went, and who had its password
    could still log in and do all that it could."""
    world = World()
    rotation = {"every": "30d", "overlap": "1h"}
    manifest = user(auth={"type": SCRAM, "rotation": rotation}, authorization=rights("a."))
    world.put(manifest)
    world.run()
    change_user(world, authentication={"type": SCRAM, "rotation": {**rotation, "every": "1h"}})
    world.run()
    assert world.ready() == ("False", "InvalidSpec")
    assert world.users.user("alice").password
    if not is_let_in:
        # Another one that means the same principal keeps it.
        world.put(user("second", auth=SCRAM, userName="alice", authorization=rights("a.")))
        world.run()
    world.store.delete(USER, "kafka", "alice")
    world.run()
    assert not world.is_there(USER, "alice")
    found = world.users.user("alice")
    assert (bool(found.rights), bool(found.password)) == (not is_let_in, not is_let_in)


def test_a_user_stays_its_brokers_when_the_namespace_gets_another_one() -> None:
    """SEC-84: without brokerRef it was let go at its deletion, and could log in for ever."""
    world = World()
    manifest = user(auth=SCRAM, authorization=rights("a."))
    del manifest["spec"]["brokerRef"]
    world.put(manifest)
    world.run()
    world.store.create(BROKER, "kafka", {"metadata": {"name": "b", "namespace": "kafka"}})
    world.run()
    assert (world.ready(), world.status()["broker"]) == (("True", "Applied"), "demo")
    world.store.delete(USER, "kafka", "alice")
    for name in ("", "b", "demo"):
        asyncio.run(world.reconciler.reconcile(replace(KEY, name=name)))
    assert not world.is_there(USER, "alice")
    found = world.users.user("alice")
    assert (found.rights, found.password) == (set(), "")


@pytest.mark.parametrize("way", ["given anew", "paused"])
def test_a_password_that_was_given_up_ends_at_once_whatever_happened_before(way: str) -> None:
    """SEC-27: with a salt that was used up the former password would be good for another day."""
    world = World()
    source = {"passwordSecretRef": {"name": "given"}} if way == "given anew" else {}
    given = {"metadata": {"name": "given"}, "data": {"password": _encoded("leaked")}}
    if source:
        world.store.create(SECRET, "kafka", given)
    world.put(user(auth={"type": SCRAM, **source}))
    world.run()
    leaked, noted = world.files()["password"], world.status()["credential"]
    if way == "given anew":
        world.store.delete(SECRET, "kafka", "given")
    else:
        change_user(world, paused=True)
    world.run()
    assert world.status()["credential"] == noted
    world.store.delete(SECRET, "kafka", "alice")
    change_user(world, paused=False)
    if source:
        world.store.create(SECRET, "kafka", {**given, "data": {"password": _encoded("new")}})
    world.run()
    assert world.ready() == ("True", "Applied")
    assert world.users.takes("alice", world.files()["password"])
    assert not world.users.takes("alice", leaked)


def test_a_user_is_deleted_though_its_broker_is_not_valid() -> None:
    """SEC-84: brokers answer, and it was let go after a minute with its password still good."""
    world = World()
    for name in ("alice", "bob"):
        world.put(user(name, auth=SCRAM, authorization=rights("a.")))
    world.run()
    spoiled = {"ca.crt": _encoded("nothing"), "ca.key": _encoded("nothing")}
    world.store.update(SECRET, "kafka", "demo-cluster-ca", lambda old: {**old, "data": spoiled})
    world.store.delete(USER, "kafka", "alice")
    world.run()
    assert not world.is_there(USER, "alice")
    assert not world.users.user("alice").password
    # Who stays keeps what they have.
    assert world.ready("bob") == ("False", "BrokerInvalid")
    assert world.users.user("bob").password
    assert world.users.user("bob").rights


def test_a_password_is_not_taken_from_the_secret_that_it_is_written_to() -> None:
    """To keep one that the operator has made, say. Each pass saw another version of that Secret,
    and wrote it and the brokers' metadata for ever."""
    world = World()
    world.put(user(auth=SCRAM))
    world.run()
    before = world.files()
    change_user(world, authentication={"type": SCRAM, "passwordSecretRef": {"name": "alice"}})
    world.run()
    assert world.ready() == ("False", "InvalidSpec")
    version, changes = world.store.version, list(world.users.changes)
    world.run()
    assert (world.store.version, world.users.changes) == (version, changes)
    assert world.files() == before


def test_a_paused_user_tells_when_its_certificate_ends() -> None:
    """Nobody renews it meanwhile."""
    world = World()
    world.put(user(auth="tls"))
    world.run()
    expires = world.status()["expires"]
    change_user(world, paused=True)
    world.run()
    assert world.status()["expires"] == expires


def test_a_user_that_means_another_service_account_takes_the_rights_of_the_former() -> None:
    """SEC-84: what brokers have of the former one is declared nowhere any more."""
    world = World()

    def account(name: str) -> dict[str, Any]:
        return {"type": "serviceAccount", "serviceAccount": {"name": name}}

    world.put(user(auth=account("a"), authorization=rights("a.")))
    world.run()
    change_user(world, authentication=account("b"))
    world.run()
    assert world.ready() == ("True", "Applied")
    assert world.status()["principal"] == "User:system:serviceaccount:kafka:b"
    assert not world.users.user("system:serviceaccount:kafka:a").rights
    assert world.users.user("system:serviceaccount:kafka:b").rights


def rename_secret(world: World, name: str) -> None:
    change_user(world, connectionSecret={"name": name})


@pytest.mark.parametrize("auth", [SCRAM, "tls"])
@pytest.mark.parametrize("is_killed", [True, False])
def test_another_name_of_the_secret_is_no_other_password(auth: str, is_killed: bool) -> None:
    """Clients log in again with what they have; pods with the former Secret change one by one."""
    world = World()
    world.put(user(auth=auth))
    world.run()
    before, status = world.files(), world.status()
    kept = ("password", "user.key", "user.crt")
    rename_secret(world, "other")
    if is_killed:
        world.users.error = RetriableError("away")
        world.run(passes=1)
        world.users.error = None
        world.start()
    world.run()
    after = world.files(name="other")
    assert {key: after.get(key) for key in kept} == {key: before.get(key) for key in kept}
    assert not world.is_there(SECRET, "alice")
    assert (
        world.status()["credential" if auth == SCRAM else "expires"]
        == (status["credential" if auth == SCRAM else "expires"])
    )
    assert world.users.changes.count("password") == (auth == SCRAM)


def test_a_name_that_somebody_else_has_costs_a_user_nothing() -> None:
    """What is under the former name goes only when the new one has it."""
    world = World()
    world.put(user(auth=SCRAM))
    world.run()
    before = world.files()
    world.store.create(SECRET, "kafka", {"metadata": {"name": "other"}, "data": {}})
    rename_secret(world, "other")
    world.run()
    assert world.ready() == ("False", "NotOurs")
    assert world.files() == before
    rename_secret(world, "alice")
    world.run()
    assert world.ready() == ("True", "Applied")
    assert world.files() == before


def test_a_broker_without_security_has_no_users() -> None:
    """SEC-80: said, instead of credentials that nobody asks for."""
    world = World()
    change = {"spec": {}}
    world.store.update(BROKER, "kafka", "demo", lambda old: {**old, **change})
    world.put(user(auth=SCRAM))
    world.run()
    assert world.ready() == ("False", "SecurityIsOff")
    assert world.users.changes == []


@pytest.mark.parametrize("phase", ["Secure", "Audit", "Brokers", "Listeners"])
def test_users_stay_until_the_broker_is_plain_again(phase: str) -> None:
    """SEC-89: their clients work by TLS as long as there is a listener for it. Before there is an
    authorizer, and after it, nothing is asked of it."""
    world = World()
    world.put(user(auth=SCRAM, authorization=rights("a.")))
    world.run()
    assert world.ready()[0] == "True"
    before = world.files()
    world.users.changes.clear()

    def turned_off(old: dict[str, Any]) -> dict[str, Any]:
        security = {"phase": phase, "authentication": True, "authorization": True}
        return {**old, "spec": {}, "status": {**old.get("status", {}), "security": security}}

    world.store.update(BROKER, "kafka", "demo", turned_off)
    world.store.update(BROKER, "kafka", "demo", turned_off, is_status=True)
    world.run()
    assert world.ready()[0] == "True"
    assert world.users.changes == []
    assert world.files() == before


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
