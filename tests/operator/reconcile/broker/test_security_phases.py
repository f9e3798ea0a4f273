"""A cluster that becomes secure, and plain again, with brokers that must be able to talk."""

import asyncio
import base64
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from barnabas_operator.admin_pool import bootstrap_servers, operator_servers
from barnabas_operator.certificates.authority import hosts_of, new_authority
from barnabas_operator.certificates.pem import certificates_of, first_certificate
from barnabas_operator.kubernetes.kinds import NETWORK_POLICY, SECRET, SERVICE, STATEFUL_SET
from barnabas_operator.reconcile.broker.security_phase import (
    PhaseFacts,
    plan_phase,
    read_phase,
)
from barnabas_operator.security_spec import PlainListener, SecurityPhase, SecuritySpec
from tests.operator.reconcile.broker.broker_world import NAME, NAMESPACE, BrokerWorld, settled
from tests.operator.reconcile.broker.secure_brokers import listeners_of, settings_of

ON = SecuritySpec(has_tls=True, has_authentication=True, has_authorization=True)
SECURE = {"spec": {"security": {"enabled": True}}}


def phase(world: BrokerWorld) -> str:
    return str((world.status.get("security") or {}).get("phase", "Plain"))


def files(world: BrokerWorld, name: str = "demo-broker-certificates") -> dict[str, str]:
    data = world.store.get(SECRET, NAMESPACE, name)["data"]
    return {key: base64.b64decode(text).decode() for key, text in data.items()}


def test_a_new_cluster_begins_where_it_is_to_end() -> None:
    """SEC-80, SEC-89: nobody uses it yet."""
    plan = plan_phase(ON, PhaseFacts(present=None))
    assert (plan.phase, plan.is_done) == (SecurityPhase.SECURE, True)
    assert plan_phase(SecuritySpec(), PhaseFacts(present=None)).phase is SecurityPhase.PLAIN
    assert read_phase({}, is_new=True) is None
    # Brokers of an earlier operator, whose status tells nothing.
    assert read_phase({}, is_new=False) is SecurityPhase.PLAIN


@pytest.mark.parametrize("target", [ON, SecuritySpec()])
def test_phases_follow_one_another_in_both_directions(target: SecuritySpec) -> None:
    """SEC-89: never two at once, and none while a broker is behind."""
    order = list(SecurityPhase) if target.has_tls else list(reversed(SecurityPhase))
    for present, following in pairwise(order):
        waiting = plan_phase(target, PhaseFacts(present=present, behind=(2,), plain_connections=0))
        assert waiting.phase is present
        assert waiting.waiting_on == f"brokers 2 do not serve in phase {present.text} yet"
        going = plan_phase(target, PhaseFacts(present=present, plain_connections=0))
        assert going.phase is following


@pytest.mark.parametrize(
    ("listener", "connections", "expected"),
    [
        (PlainListener.UNTIL_UNUSED, 3, "3 connections of clients in plain text"),
        (PlainListener.UNTIL_UNUSED, None, "brokers do not tell"),
        (PlainListener.OPEN, 0, "plainListener is Open"),
        (PlainListener.UNTIL_UNUSED, 0, ""),
        (PlainListener.CLOSED, 3, ""),
    ],
)
def test_the_plain_listener_closes_when_nobody_comes_by_it_or_somebody_says_so(
    listener: PlainListener, connections: int | None, expected: str
) -> None:
    """SEC-89: clients come after Users; status shows who still comes in plain."""
    spec = SecuritySpec(has_tls=True, plain_listener=listener)
    facts = PhaseFacts(present=SecurityPhase.AUDIT, plain_connections=connections)
    plan = plan_phase(spec, facts)
    wanted = SecurityPhase.AUDIT if expected else SecurityPhase.SECURE
    assert plan.phase is wanted
    assert expected in plan.waiting_on


async def walk(world: BrokerWorld) -> list[str]:
    """The phases that the status has shown, each once, until nothing changes."""
    shown: list[str] = [phase(world)]
    quiet = 0
    while quiet < 12:
        version = world.store.version
        await world.reconcile()
        world.tick()
        quiet = quiet + 1 if world.store.version == version else 0
        if phase(world) != shown[-1]:
            shown.append(phase(world))
        assert len(shown) < 10
    return shown


def test_a_plain_cluster_becomes_secure_and_plain_again() -> None:
    """SEC-89: brokers talk to each other in every mixture; the world checks it after each tick."""
    world = settled()
    world.change(SECURE)
    way = ["Plain", "Listeners", "Brokers", "Audit", "Secure"]
    assert asyncio.run(walk(world)) == way
    assert sorted(world.restarted) == [0] * 4 + [1] * 4 + [2] * 4
    settings = settings_of(world.pods()[0])
    assert settings["authorizer.class.name"] == "StandardAuthorizer"
    assert settings["barnabas.authorizer.mode"] == "enforce"
    assert settings["super.users"] == "User:CN=barnabas-operator,O=kafka.demo"
    assert settings["barnabas.broker.principals"] == "User:CN=broker-{id},O=kafka.demo"
    assert listeners_of(world.pods()[0]) == {
        "CLIENTS": "SASL_SSL",
        "CERTIFICATES": "SSL",
        "REPLICATION_SSL": "SSL",
    }
    assert world.condition("Insecure") == {}
    assert world.condition("Ready")["status"] == "True"
    assert world.status["bootstrapServers"] == "demo-bootstrap.kafka.svc:9093"
    assert operator_servers(world.broker) == "demo-brokers.kafka.svc:9090"
    assert bootstrap_servers(world.broker) == "demo-bootstrap.kafka.svc:9093"
    assert (NAMESPACE, NAME) in world.store.objects[NETWORK_POLICY]

    world.restarted.clear()
    world.change({"spec": {"security": {"enabled": False}}})
    assert asyncio.run(walk(world)) == list(reversed(way))
    assert "security" not in world.status
    assert world.condition("Insecure")["reason"] == "SecurityIsOff"
    assert operator_servers(world.broker) == "demo-bootstrap.kafka.svc:9092"
    assert (NAMESPACE, NAME) not in world.store.objects[NETWORK_POLICY]


def test_it_waits_for_clients_and_shows_how_many_there_are() -> None:
    """SEC-89: idle while it waits, and what would be denied is told meanwhile."""
    world = settled()
    world.plain_connections = 2
    world.change(SECURE)
    assert asyncio.run(walk(world))[-1] == "Audit"
    assert world.status["security"]["plainConnections"] == 6
    assert world.condition("Insecure")["reason"] == "PlainListenerOpen"
    assert world.condition("Ready")["status"] == "True"
    assert settings_of(world.pods()[0])["barnabas.authorizer.mode"] == "audit-only"
    world.change({"spec": {"security": {"plainListener": "Closed"}}})
    assert asyncio.run(walk(world))[-1] == "Secure"


def new_cluster(**security: Any) -> BrokerWorld:
    return settled(security={"enabled": True, **security})


def test_a_new_secure_cluster_has_all_of_it_at_once() -> None:
    """SEC-80, SEC-82: no broker of it has ever been plain; certificates have every name."""
    world = new_cluster()
    assert phase(world) == "Secure"
    assert world.restarted == []
    found = files(world)
    leaf = first_certificate(found["broker-2.crt"])
    for host in (
        "demo-bootstrap.kafka.svc",
        "demo-broker-2.kafka.svc.cluster.local",
        "demo-2.demo-brokers.kafka.svc",
    ):
        assert host in hosts_of(leaf)
    ports = world.store.get(SERVICE, NAMESPACE, "demo-bootstrap")["spec"]["ports"]
    assert [one["port"] for one in ports] == [9093, 9097]
    template = world.store.get(STATEFUL_SET, NAMESPACE, NAME)["spec"]["template"]["spec"]
    (volume,) = [one for one in template["volumes"] if one["name"] == "tls"]
    assert volume["projected"]["sources"] == [{"secret": {"name": "demo-broker-certificates"}}]
    (mount,) = [one for one in template["containers"][0]["volumeMounts"] if one["name"] == "tls"]
    assert "subPath" not in mount


def test_renewal_restarts_nothing_and_an_idle_secure_broker_writes_nothing() -> None:
    """SEC-83, SEC-81: leaves are signed anew at two thirds, and the pods stay as they are."""
    world = new_cluster()
    version, before = world.store.version, files(world)
    asyncio.run(world.settle())
    assert world.store.version == version
    world.clock.now_ms += int(timedelta(days=61).total_seconds() * 1000)
    asyncio.run(world.settle())
    after = files(world)
    assert after["broker-0.crt"] != before["broker-0.crt"]
    assert after["cluster-ca.crt"] == before["cluster-ca.crt"]
    assert world.restarted == []


@pytest.mark.parametrize("name", ["cluster", "clients"])
def test_a_change_of_authority_waits_for_each_broker_and_restarts_nothing(name: str) -> None:
    """SEC-81: progress is in the status; the new one signs only when all have its anchor."""
    world = new_cluster()
    old = files(world, f"demo-{name}-ca")["ca.crt"]
    world.change({"spec": {"security": {"certificates": {"renew": "today"}}}})
    steps: list[str] = []
    for _ in range(400):
        asyncio.run(world.reconcile())
        world.tick()
        world.clock.now_ms += 30_000
        (report,) = [one for one in world.status["security"]["authorities"] if one["name"] == name]
        if not steps or steps[-1] != report["step"]:
            steps.append(report["step"])
        anchors = certificates_of(files(world)[f"{name}-ca.crt"])
        if steps[-1] == "Stable" and len(steps) > 1 and first_certificate(old) not in anchors:
            break
        if steps[-1] == "Replacing" and name == "clients":
            # Clients that read their certificate once have it for ninety days.
            assert first_certificate(old) in anchors
            world.clock.now_ms += int(timedelta(days=91).total_seconds() * 1000)
    assert steps[-3:] == ["Distributing", "Replacing", "Stable"]
    assert files(world, f"demo-{name}-ca")["ca.crt"] != old
    assert world.restarted == []


def test_a_broker_that_does_not_load_the_bundle_holds_the_change_up() -> None:
    """SEC-81: until then the old authority signs."""
    world = new_cluster()
    old = files(world, "demo-cluster-ca")["ca.crt"]
    world.loaded[1] = {}
    world.loads_certificates = False
    world.change({"spec": {"security": {"certificates": {"renew": "today"}}}})
    for _ in range(20):
        asyncio.run(world.reconcile())
        world.tick()
        world.clock.now_ms += 60_000
    (report,) = [one for one in world.status["security"]["authorities"] if one["name"] == "cluster"]
    assert (report["step"], "have not loaded the bundle" in report["waitingOn"]) == (
        "Distributing",
        True,
    )
    assert files(world, "demo-cluster-ca")["ca.crt"] == old


def test_an_authority_of_ones_own_signs_and_another_one_is_changed_to() -> None:
    """SEC-82: secretRef; the Secret that is given is only read."""
    world = BrokerWorld(
        3, security={"enabled": True, "certificates": {"cluster": {"secretRef": {"name": "own"}}}}
    )
    asyncio.run(world.reconcile())
    assert "there is no Secret own" in world.condition("Ready")["message"]
    given = new_authority("given", world.now())
    secret = {
        "metadata": {"name": "own"},
        "data": {
            "tls.crt": base64.b64encode(given.pair.chain.encode()).decode(),
            "tls.key": base64.b64encode(given.pair.key.encode()).decode(),
        },
    }
    world.store.create(SECRET, NAMESPACE, secret)
    asyncio.run(world.settle())
    assert given.has_signed(first_certificate(files(world)["broker-0.crt"]))
    assert world.condition("Ready")["status"] == "True"


def test_a_secret_of_somebody_else_is_never_written() -> None:
    """SEC-81: it is told instead."""
    world = BrokerWorld(3, security={"enabled": True})
    theirs = {"metadata": {"name": "demo-cluster-ca"}, "data": {"x": "eA=="}}
    world.store.create(SECRET, NAMESPACE, theirs)
    for _ in range(3):
        asyncio.run(world.reconcile())
        world.tick()
    assert world.store.get(SECRET, NAMESPACE, "demo-cluster-ca")["data"] == {"x": "eA=="}
    assert "demo-cluster-ca" in world.condition("Ready")["message"]


def test_pods_mount_no_key_of_an_authority() -> None:
    """SEC-82: only the operator reads it."""
    world = new_cluster()
    keys = {files(world, f"demo-{name}-ca")["ca.key"] for name in ("cluster", "clients")}
    assert keys.isdisjoint(files(world).values())
    for pod in world.pods().values():
        assert "clients-ca" not in str(pod["spec"]["volumes"])
        assert "cluster-ca" not in str(pod["spec"]["volumes"])
