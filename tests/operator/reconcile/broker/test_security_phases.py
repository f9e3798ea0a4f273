"""A cluster that becomes secure, and plain again, with brokers that must be able to talk."""

import asyncio
import base64
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from barnabas_operator.admin_pool import bootstrap_servers, operator_servers
from barnabas_operator.certificates.authority import Authority, hosts_of, new_authority
from barnabas_operator.certificates.pem import certificates_of, first_certificate
from barnabas_operator.kubernetes.kinds import (
    BROKER,
    INGRESS,
    NETWORK_POLICY,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    TLS_ROUTE,
)
from barnabas_operator.reconcile.broker.security_phase import (
    PhaseFacts,
    plan_phase,
    present_phase,
)
from barnabas_operator.security_spec import (
    PlainListener,
    SecureListeners,
    SecurityPhase,
    SecuritySpec,
)
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
    assert present_phase({}, None, ()) is None
    # Brokers of an earlier operator, whose status tells nothing.
    assert present_phase({}, {}, ({}, {})) is SecurityPhase.PLAIN
    assert present_phase({}, None, ({}, {})) is SecurityPhase.PLAIN


@pytest.mark.parametrize("target", [ON, SecuritySpec()])
def test_phases_follow_one_another_in_both_directions(target: SecuritySpec) -> None:
    """SEC-89: never two at once, and none while a broker is behind."""
    order = list(SecurityPhase) if target.has_tls else list(reversed(SecurityPhase))
    for present, following in pairwise(order):
        waiting = plan_phase(target, PhaseFacts(present=present, behind=(2,), plain_connections=0))
        assert waiting.phase is present
        assert waiting.waiting_on == f"brokers 2 do not serve in phase {present.text} yet"
        facts = PhaseFacts(present=present, plain_connections=0, secure_connections=0)
        going = plan_phase(target, facts)
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


@pytest.mark.parametrize(
    ("listeners", "connections", "expected"),
    [
        (SecureListeners.UNTIL_UNUSED, 3, "3 connections of clients by TLS"),
        (SecureListeners.UNTIL_UNUSED, None, "brokers do not tell"),
        (SecureListeners.UNTIL_UNUSED, 0, ""),
        (SecureListeners.CLOSED, 3, ""),
    ],
)
def test_secure_listeners_close_when_nobody_comes_by_them_or_somebody_says_so(
    listeners: SecureListeners, connections: int | None, expected: str
) -> None:
    """SEC-89: backwards alike."""
    spec = SecuritySpec(secure_listeners=listeners)
    facts = PhaseFacts(present=SecurityPhase.LISTENERS, secure_connections=connections)
    plan = plan_phase(spec, facts)
    wanted = SecurityPhase.LISTENERS if expected else SecurityPhase.PLAIN
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


def test_it_is_not_plain_again_while_clients_come_by_tls() -> None:
    """SEC-89: both listeners are open while it waits."""
    world = new_cluster()
    world.secure_connections = 1
    world.change({"spec": {"security": {"enabled": False}}})
    assert asyncio.run(walk(world))[-1] == "Listeners"
    assert world.status["security"]["waitingOn"] == "3 connections of clients by TLS"
    assert world.condition("Ready")["status"] == "True"
    assert "PLAINTEXT" in listeners_of(world.pods()[0])
    world.secure_connections = 0
    assert asyncio.run(walk(world))[-1] == "Plain"


@pytest.mark.parametrize("way", [["Secure"], ["Plain", "Listeners", "Brokers", "Audit"]])
@pytest.mark.parametrize("is_orphaned", [True, False])
def test_a_broker_without_its_status_goes_on_in_the_phase_of_its_brokers(
    way: list[str], is_orphaned: bool
) -> None:
    """SEC-89: one that comes from a backup, or is made again over its brokers, tells no phase. As
    if it were Plain they would be made plain ones, open to everybody, which find no secure one."""
    world = settled(security={"enabled": True} if way == ["Secure"] else {"enabled": False})
    world.plain_connections = 2
    world.change(SECURE)
    assert asyncio.run(walk(world)) == way
    world.restarted.clear()
    if is_orphaned:
        world.store.update(
            BROKER, NAMESPACE, NAME, lambda old: {**old, "status": {}}, is_status=True
        )
    else:
        spec = world.broker["spec"]
        # The StatefulSet is another Broker's, and goes while its pods stop.
        world.store.delete(BROKER, NAMESPACE, NAME)
        manifest = {"kind": "Broker", "metadata": {"name": NAME}, "spec": spec}
        world.store.create(BROKER, NAMESPACE, {"apiVersion": BROKER.api_version, **manifest})
    asyncio.run(world.reconcile())
    assert phase(world) == way[-1]
    assert asyncio.run(walk(world)) == [way[-1]]
    assert world.restarted == []


def test_a_plain_broker_without_its_status_becomes_secure_step_by_step() -> None:
    """SEC-89: its brokers run, and are plain."""
    world = settled()
    world.change(SECURE)
    world.store.update(BROKER, NAMESPACE, NAME, lambda old: {**old, "status": {}}, is_status=True)
    asyncio.run(world.reconcile())
    assert asyncio.run(walk(world))[-3:] == ["Brokers", "Audit", "Secure"]


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


def test_a_paused_broker_tells_that_its_certificates_end() -> None:
    """Nothing renews them while it is paused, and brokers whose certificates have ended do not talk
    to each other any more."""
    world = new_cluster()
    end = world.status["security"]["certificatesExpire"]
    world.change({"spec": {"paused": True}})
    asyncio.run(world.settle())
    assert world.status["security"]["certificatesExpire"] == end
    before = files(world)
    world.clock.now_ms += int(timedelta(days=80).total_seconds() * 1000)
    asyncio.run(world.settle())
    assert world.condition("CertificatesExpire")["status"] == "True"
    assert files(world) == before
    world.change({"spec": {"paused": False}})
    asyncio.run(world.settle())
    assert files(world) != before
    assert world.condition("CertificatesExpire") == {}


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


def test_a_parked_broker_holds_no_change_of_authority_up() -> None:
    """It mounts what there is when it starts; parked for longer than an authority has left, it
    would have had the others end with that."""
    world = new_cluster()
    world.change({"spec": {"maintenance": {"park": [2]}}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1}
    before = files(world)["cluster-ca.crt"]
    world.change({"spec": {"security": {"certificates": {"renew": "now"}}}})
    for _ in range(40):
        asyncio.run(world.reconcile())
        world.tick()
        world.clock.now_ms += 60_000
    (cluster,) = (
        one for one in world.status["security"]["authorities"] if one["name"] == "cluster"
    )
    assert cluster["step"] == "Stable"
    assert files(world)["cluster-ca.crt"] != before
    world.change({"spec": {"maintenance": {"park": []}}})
    asyncio.run(world.settle())
    assert world.ready_ids() == {0, 1, 2}


def test_taking_the_text_out_of_a_manifest_asks_for_no_other_authority() -> None:
    """SEC-81: an authority that nobody wants costs clients that read theirs once a restart."""
    world = new_cluster()

    def renew(text: str | None) -> str:
        world.change({"spec": {"security": {"certificates": {"renew": text}}}})
        for _ in range(60):
            asyncio.run(world.reconcile())
            world.tick()
            world.clock.now_ms += 60_000
        told = {one["name"]: one["step"] for one in world.status["security"]["authorities"]}
        assert told["cluster"] == "Stable"
        return str(files(world, "demo-cluster-ca")["ca.crt"])

    first = files(world, "demo-cluster-ca")["ca.crt"]
    second = renew("today")
    assert second != first
    assert renew(None) == second
    assert renew("today") == second
    assert renew("tomorrow") != second
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


def give(world: BrokerWorld, authority: Authority, name: str = "own") -> None:
    pair = authority.pair
    texts = {"ca.crt": pair.chain, "ca.key": pair.key}
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    if (NAMESPACE, name) in world.store.objects[SECRET]:
        world.store.update(SECRET, NAMESPACE, name, lambda old: {**old, "data": data})
    else:
        world.store.create(SECRET, NAMESPACE, {"metadata": {"name": name}, "data": data})


@pytest.mark.parametrize("kind", ["cluster", "clients"])
@pytest.mark.parametrize("spoiled", ["gone", "no authority", "ended"])
def test_certificates_are_renewed_though_the_given_authority_is_no_good_any_more(
    kind: str, spoiled: str
) -> None:
    """What was taken from the Secret is kept: without it brokers would end with their leaves."""
    given = {kind: {"secretRef": {"name": "own"}}}
    world = BrokerWorld(3, security={"enabled": True, "certificates": given})
    give(world, new_authority("own", world.now()))
    asyncio.run(world.settle())
    before = files(world)["broker-0.crt"]
    world.clock.now_ms += int(timedelta(days=61).total_seconds() * 1000)
    expected = {
        "gone": "there is no Secret own",
        "no authority": "no certificate in PEM",
        "ended": "the authority in Secret own has ended at",
    }
    if spoiled == "gone":
        world.store.delete(SECRET, NAMESPACE, "own")
    elif spoiled == "ended":
        give(world, new_authority("b", world.now() - timedelta(days=9), timedelta(days=8)))
    else:
        data = dict.fromkeys(("ca.crt", "ca.key"), base64.b64encode(b"nothing").decode())
        world.store.update(SECRET, NAMESPACE, "own", lambda old: {**old, "data": data})
    asyncio.run(world.settle())
    assert files(world)["broker-0.crt"] != before
    assert expected[spoiled] in world.condition("Ready")["message"]
    assert world.restarted == []


@pytest.mark.parametrize("kind", ["cluster", "clients"])
def test_an_authority_that_has_ended_is_told_and_a_good_one_is_taken_at_once(kind: str) -> None:
    """Each pass failed without a word then, so neither a new authority nor anything else came
    through; the Broker stayed as ready as it had been."""
    given = {kind: {"secretRef": {"name": "own"}}}
    world = BrokerWorld(3, security={"enabled": True, "certificates": given})
    give(world, new_authority("own", world.now(), timedelta(days=30)))
    asyncio.run(world.settle())
    world.clock.now_ms += int(timedelta(days=31).total_seconds() * 1000)
    asyncio.run(world.reconcile())
    told = world.condition("Ready")
    assert told["status"] == "False"
    assert "has ended at" in told["message"]
    good = new_authority("good", world.now())
    give(world, good)
    asyncio.run(world.settle())
    assert world.condition("Ready")["status"] == "True"
    bundle = files(world)[f"{kind}-ca.crt"]
    assert certificates_of(bundle) == (good.certificate,)


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


GATEWAY = {
    "type": "TLSRoute",
    "advertisedHost": "b{id}.example.com",
    "bootstrapHost": "kafka.example.com",
    "gateway": {"name": "edge"},
}


INGRESS_LISTENER = {
    "type": "Ingress",
    "advertisedHost": "b{id}.example.com",
    "bootstrapHost": "kafka.example.com",
}


def test_a_listener_goes_from_a_gateway_to_an_ingress_and_back() -> None:
    """SEC-87: what led to the brokers before is gone, what leads there now is whole."""
    world = settled(security={"enabled": True}, listeners={"external": GATEWAY})
    for wanted, other, kind, gone in (
        (INGRESS_LISTENER, GATEWAY, INGRESS, TLS_ROUTE),
        (GATEWAY, INGRESS_LISTENER, TLS_ROUTE, INGRESS),
    ):
        world.change({"spec": {"listeners": {"external": dict.fromkeys(other) | wanted}}})
        asyncio.run(walk(world))
        assert len(world.store.objects[kind]) == 4
        assert not world.store.objects.get(gone)


@pytest.mark.parametrize("listener", [GATEWAY, INGRESS_LISTENER])
def test_a_route_that_is_not_wanted_any_more_goes(listener: dict[str, Any]) -> None:
    """SEC-87: a host that leads nowhere is not kept."""
    world = settled(security={"enabled": True}, listeners={"external": listener})
    kind = INGRESS if listener is INGRESS_LISTENER else TLS_ROUTE
    world.change({"spec": {"listeners": {"external": {"bootstrapHost": None}}}})
    asyncio.run(walk(world))
    assert sorted(name for _, name in world.store.objects[kind]) == [
        f"demo-external-{node_id}" for node_id in range(3)
    ]


@pytest.mark.parametrize("is_api_there", [True, False])
def test_a_gateway_that_is_not_wanted_any_more_leaves_no_route(is_api_there: bool) -> None:
    """SEC-87: nor the Service of any broker, to which they led; also after Gateway API has gone."""
    world = settled(security={"enabled": True}, listeners={"external": GATEWAY})
    assert len(world.store.objects[TLS_ROUTE]) == 4
    if not is_api_there:
        del world.store.objects[TLS_ROUTE]
    ports = {"type": "NodePort", "advertisedHost": "node", "nodePortBase": 30094}
    fields = dict.fromkeys(GATEWAY) | ports
    world.change({"spec": {"listeners": {"external": fields}}})
    asyncio.run(walk(world))
    assert not world.store.objects.get(TLS_ROUTE)
    services = [name for _, name in world.store.objects[SERVICE]]
    assert "demo-external-bootstrap" not in services
    assert "demo-external-2" in services
