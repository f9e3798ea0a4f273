"""Brokers that run become secure, and plain again, while clients of both kinds are at work."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.errors import BarnabasError
from tests.e2e.support.checked_load import check_history
from tests.e2e.support.client_pods import ClientPod, JavaLoad, SteadyExchange, Stopwatch
from tests.e2e.support.figures import Figures
from tests.e2e.support.images import Images
from tests.e2e.support.outside_clients import NODE, exchange, user_settings
from tests.e2e.support.release import Release
from tests.e2e.support.secure_brokers import SecureBrokers
from tests.e2e.support.topics import make_topic

PARTITIONS = 6
OUTSIDE = "orders.outside"
TOPICS = ("orders.plain", "orders.tls", "orders.again", "orders.both", OUTSIDE)
NODE_PORTS = {"type": "NodePort", "advertisedHost": NODE, "nodePortBase": 31194}


def test_plain_brokers_become_secure_and_plain_again_under_load(
    release: Release, images: Images, figures: Figures, tmp_path: Path
) -> None:
    """SEC-89: Java's producer with its defaults comes in plain, then by TLS and a password, then in
    plain again, each time before the listeners of the other kind close; beside it our producer and
    consumer by password as long as there is such a listener. No request fails, no record is lost.
    Outside there is one port: it takes both kinds of clients meanwhile.
    """
    kubectl = release.kubectl
    brokers = SecureBrokers(kubectl, "change")
    plain = ClientPod(kubectl, images.broker, brokers.bootstrap, name="change-client")
    loads: list[JavaLoad] = []

    def load(topic: str, bootstrap: str, user: str = "") -> JavaLoad:
        loads.append(JavaLoad(kubectl, images.java_client, bootstrap, topic, user=user))
        return loads[-1].start(PARTITIONS)

    outside = OutsideClient(brokers, tmp_path)
    steady = SteadyExchange(kubectl, images.broker, "orders.both", "mover", "mover")
    try:
        brokers.plain(external=NODE_PORTS)
        brokers.until_settled()
        for topic in TOPICS:
            make_topic(kubectl, topic, brokers, partitions=PARTITIONS, deletionPolicy="Delete")
        first = load("orders.plain", brokers.bootstrap)
        outside.comes("PLAINTEXT")
        brokers.secure(external=NODE_PORTS)
        reach(brokers, "Audit", figures, "plain brokers until phase Audit")
        assert brokers.security()["plainConnections"] > 0
        assert "connections of clients in plain text" in brokers.security()["waitingOn"]

        brokers.add_user("mover", {"type": "scram-sha-512"})
        outside.comes("PLAINTEXT", "SASL_SSL")
        second = load("orders.tls", brokers.secure_bootstrap, "mover")
        steady.start()
        first.goes_on()
        ended(first, figures, "Java in plain text while brokers become secure")
        reach(brokers, "Secure", figures, "from the last plain client until phase Secure")
        assert not plain_is_open(brokers)
        outside.comes("SASL_SSL")
        outside.is_refused("PLAINTEXT")
        second.goes_on()
        steady.goes_on()

        brokers.plain(external=NODE_PORTS)
        reach(brokers, "Listeners", figures, "secure brokers until phase Listeners")
        brokers.until_told(lambda told: "clients by TLS" in told["security"].get("waitingOn", ""))
        outside.comes("PLAINTEXT", "SASL_SSL")
        third = load("orders.again", brokers.bootstrap)
        second.goes_on()
        ended(second, figures, "Java by TLS and password while brokers become plain again")
        figures.note("our clients meanwhile", json.dumps(steady.end()))
        steady.remove()
        brokers.until_phase("Plain")
        outside.comes("PLAINTEXT")
        third.goes_on()
        ended(third, figures, "Java in plain text at the end")
        plain.start()
        for one in loads:
            check_history(one, plain, one.end())
    except BaseException:
        print(brokers.describe())
        raise
    finally:
        for one in (*loads, steady, plain):
            one.remove()
        for topic in TOPICS:
            kubectl.delete("topic", topic)
        brokers.forget_all()


class OutsideClient:
    """A client that comes by a node's port, without TLS or with TLS and a password."""

    def __init__(self, brokers: SecureBrokers, directory: Path) -> None:
        self._brokers = brokers
        self._directory = directory

    def comes(self, *protocols: str) -> None:
        """Write and read by each of these."""
        for protocol in protocols:
            asyncio.run(self._exchange(protocol))

    def is_refused(self, protocol: str) -> None:
        """Nobody gets anywhere by this."""
        with pytest.raises((BarnabasError, TimeoutError)):
            asyncio.run(self._exchange(protocol, request_timeout_ms=5_000))

    async def _exchange(self, protocol: str, **more: Any) -> None:
        settings: dict[str, Any] = {}
        if protocol != "PLAINTEXT":
            settings = user_settings(self._brokers.kubectl, "mover", self._directory)
            assert settings["security_protocol"] == protocol
        bootstrap = f"{NODE}:{NODE_PORTS['nodePortBase']}"
        await exchange({**settings, **more}, bootstrap, OUTSIDE, "mover-outside")


def reach(brokers: SecureBrokers, phase: str, figures: Figures, name: str) -> None:
    """Wait for a phase, and note how long that took."""
    watch = Stopwatch()
    brokers.until_phase(phase)
    figures.note(name, f"{watch.seconds():.0f} s")


def ended(load: JavaLoad, figures: Figures, name: str) -> None:
    """Stop a load whose every record has to be acknowledged."""
    fared = load.end()
    figures.note(name, fared)
    assert fared.errors == 0, fared
    assert fared.acknowledged == fared.sent, fared


def plain_is_open(brokers: SecureBrokers) -> bool:
    """Whether the Service that clients begin with has the plain port."""
    service = brokers.kubectl.get("service", f"{brokers.name}-bootstrap")
    return 9092 in [one["port"] for one in service["spec"]["ports"]]
