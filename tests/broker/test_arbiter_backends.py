"""A whole broker whose arbiter is a Lease, and how the arbiter is chosen by the settings."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas_broker.arbiter.arbiter import Arbiter
from barnabas_broker.arbiter.arbiter_factory import make_arbiter
from barnabas_broker.arbiter.etcd import EtcdArbiter
from barnabas_broker.arbiter.kubernetes_lease import KubernetesLeaseArbiter
from barnabas_broker.arbiter.local_file import LocalFileArbiter
from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.topics import NewTopic
from barnabas_broker.lifecycle.broker_state import BrokerState
from tests.support.fake_api_server import FakeApiServer
from tests.support.faulty_gateway import FaultyGateway
from tests.support.in_process_broker import broker_on, eventually, running_broker
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk

LEASE = "barnabas-arbiter"
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def properties_for(server: str, token_file: str = "") -> dict[str, str]:
    return {
        "arbiter_backend": "kubernetes",
        "arbiter_kubernetes_server": server,
        "arbiter_kubernetes_namespace": "messages",
        "arbiter_kubernetes_token_file": token_file,
        "arbiter_kubernetes_ca_file": "",
        "arbiter_poll_interval_ms": "5",
        "admin_http_port": "-1",
    }


def test_each_start_takes_a_new_epoch_in_the_lease(tmp_path: Path) -> None:
    """Rule 1, CTL-2: the Lease shows who leads, since when and for which time."""
    (tmp_path / "token").write_text("secret\n")

    async def run() -> None:
        async with FakeApiServer(tokens={"secret"}) as api:
            properties = properties_for(api.address, str(tmp_path / "token"))
            for epoch in (1, 2, 3):
                async with running_broker(tmp_path / "data", **properties) as server:
                    assert server.image.epoch == epoch
                    lease = api.leases[LEASE]
                    assert lease["spec"]["leaseTransitions"] == epoch
                    assert lease["spec"]["holderIdentity"] == "0"
                    leader = lease["metadata"]["annotations"]["barnabas.dev/leader"]
                    assert leader == f"0@127.0.0.1:{server.replication_port}"

    asyncio.run(run())


def test_controller_goes_on_while_the_store_is_away(tmp_path: Path) -> None:
    """CTL-13: topics are made meanwhile, and the watch is taken up again afterwards."""

    async def run() -> None:
        async with (
            FakeApiServer() as api,
            FaultyGateway(api.address, lambda *_: False, (409, {})) as gateway,
            running_broker(tmp_path, **properties_for(gateway.address)) as server,
        ):
            controller = server.control.controller
            gateway.is_away = True
            asked = len(gateway.requests)

            async def has_noticed() -> bool:
                return len(gateway.requests) > asked

            await eventually(has_noticed)
            made = await controller.create_topics([NewTopic(name="meanwhile")])
            assert made[0].error is None
            gateway.is_away = False
            lease = api.leases[LEASE]
            lease["spec"]["holderIdentity"] = "somebody"
            api.put(LEASE, lease)

            async def leads_anew() -> bool:
                return controller.is_active and server.image.epoch == 2

            # CTL-10: another holder was written by hand; CTL-5: in a new epoch.
            await eventually(leads_anew)
            assert server.fatal_error is None

    asyncio.run(run())


def test_broker_waits_for_the_store_before_it_serves(tmp_path: Path) -> None:
    """CTL-7: nobody leads by its own word; and no broker gives up while none can lead."""

    async def run() -> None:
        async with (
            FakeApiServer() as api,
            FaultyGateway(api.address, lambda *_: False, (409, {})) as gateway,
        ):
            gateway.is_away = True
            server = broker_on(tmp_path, **properties_for(gateway.address))
            starting = asyncio.ensure_future(server.start())
            asked = len(gateway.requests)

            async def has_asked_often() -> bool:
                return len(gateway.requests) > asked + 10

            await eventually(has_asked_often)
            assert not starting.done()
            assert server.state is BrokerState.STARTING
            gateway.is_away = False
            await starting
            assert server.image.epoch == 1
            await server.stop()

    asyncio.run(run())


def test_a_start_has_a_deadline(tmp_path: Path) -> None:
    """BOOT-12: whatever it waits for, and what was begun is stopped; a start in time goes on."""

    async def run() -> None:
        async with (
            FakeApiServer() as api,
            FaultyGateway(api.address, lambda *_: False, (409, {})) as gateway,
        ):
            limit = {"server.max.startup.time.ms": "300"}
            gateway.is_away = True
            server = broker_on(tmp_path, **properties_for(gateway.address), **limit)
            with pytest.raises(TimeoutError, match=r"longer than server\.max\.startup\.time\.ms"):
                await server.start()
            assert server.state is BrokerState.NOT_RUNNING
            gateway.is_away = False
            limit = {"server.max.startup.time.ms": "60000"}
            server = broker_on(tmp_path, **properties_for(gateway.address), **limit)
            await server.start()
            await server.stop()

    asyncio.run(run())


def made(properties: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Arbiter:
    disk = SimulatedDisk()
    disk.make_directories("pod")
    disk.write_atomically("pod/namespace", b"messages\n")
    config = BrokerConfig.parse(
        {
            "node.id": "0",
            "listeners": "A://a:1,REPLICATION://a:2",
            "listener.security.protocol.map": "A:PLAINTEXT",
            **properties,
        }
    )
    return make_arbiter(config, disk, SimulatedClock(), environment or {})


def test_store_is_chosen_by_the_backend() -> None:
    """One row of the settings; a pod needs no other than that."""
    assert isinstance(made({}), LocalFileArbiter)
    etcd = {"arbiter.backend": "etcd", "arbiter.etcd.endpoints": "http://one:2379"}
    assert isinstance(made(etcd), EtcdArbiter)
    kubernetes = {
        "arbiter.backend": "kubernetes",
        "arbiter.kubernetes.token.file": "pod/token",
    }
    assert isinstance(made(kubernetes, POD), KubernetesLeaseArbiter)


def test_what_a_pod_is_told_must_be_given_elsewhere() -> None:
    """BOOT-10: the start ends with the name of the missing setting."""
    kubernetes = {"arbiter.backend": "kubernetes"}
    with pytest.raises(ConfigError, match=r"arbiter\.kubernetes\.server"):
        made(kubernetes)
    with pytest.raises(ConfigError, match=r"arbiter\.kubernetes\.namespace"):
        made(kubernetes, POD)
