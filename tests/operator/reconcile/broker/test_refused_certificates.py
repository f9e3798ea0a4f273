"""What the API server refuses of certificates is told, and stops nothing else."""

import asyncio
import base64
from datetime import timedelta

import pytest

from barnabas_operator.certificates.authority import new_authority
from barnabas_operator.kubernetes.api import (
    ForbiddenError,
    KubernetesError,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.kinds import CERTIFICATE, SECRET, Kind
from tests.operator.reconcile.broker.broker_world import NAMESPACE, BrokerWorld
from tests.operator.reconcile.broker.store_api import StoreApi
from tests.support.fake_kubernetes_store import FakeStore


def issuer(name: str) -> dict[str, object]:
    return {"certManager": {"issuerRef": {"name": name, "kind": "ClusterIssuer"}}}


class RefusingWay(StoreApi):
    """Refuses to read, or to write, objects of one kind."""

    def __init__(self, store: FakeStore) -> None:
        super().__init__(store)
        self.read: tuple[str, KubernetesError] | None = None
        self.write: tuple[str, KubernetesError] | None = None

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        if self.read is not None and self.read[0] == kind.kind:
            raise self.read[1]
        return await super().get(kind, namespace, name)

    async def apply(self, manifest: Object) -> Object:
        if self.write is not None and self.write[0] == manifest["kind"]:
            raise self.write[1]
        return await super().apply(manifest)


def world_with(store: FakeStore, way: RefusingWay, **certificates: object) -> BrokerWorld:
    security = {"enabled": True, "certificates": certificates}
    return BrokerWorld(3, store=store, way=way, security=security)


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("the server could not find the requested resource", code=404),
        ForbiddenError("certificates.cert-manager.io is forbidden", code=403),
    ],
)
@pytest.mark.parametrize("is_read", [True, False])
def test_a_cert_manager_that_is_not_there_any_more_stops_no_pass(
    error: KubernetesError, is_read: bool
) -> None:
    """Its resources may be taken away, or the rights on them; the authority is kept all the same.
    Each pass failed, without a word in the status, before anything else was looked at."""
    store = FakeStore()
    way = RefusingWay(store)
    world = world_with(store, way, clients=issuer("company"))
    authority = new_authority("issued", world.now())
    issued = {"tls.crt": authority.pair.chain, "tls.key": authority.pair.key}
    asyncio.run(world.reconcile())
    data = {key: base64.b64encode(text.encode()).decode() for key, text in issued.items()}
    store.create(SECRET, NAMESPACE, {"metadata": {"name": "demo-clients-ca-issued"}, "data": data})
    asyncio.run(world.settle())
    assert world.condition("Ready")["status"] == "True"
    refused = ("Certificate", error)
    if is_read:
        way.read = refused
    else:
        way.write = refused
        world.change({"spec": {"security": {"certificates": {"clients": issuer("other")}}}})
    world.change({"spec": {"image": "good:2"}})
    world.clock.now_ms += int(timedelta(days=61).total_seconds() * 1000)
    before = store.get(SECRET, NAMESPACE, "demo-broker-certificates")["data"]
    asyncio.run(world.settle())
    assert sorted(world.restarted) == [0, 1, 2]
    assert store.get(SECRET, NAMESPACE, "demo-broker-certificates")["data"] != before
    assert str(error) in world.condition("Stalled")["message"]
    way.read = way.write = None
    asyncio.run(world.settle())
    assert world.condition("Ready")["status"] == "True"


def test_a_certificate_of_somebody_else_is_neither_written_nor_waited_for() -> None:
    """Somebody may have asked cert-manager for one of that name; it had got another Secret and
    another issuer."""
    store = FakeStore()
    world = world_with(store, RefusingWay(store), clients=issuer("company"))
    theirs = {"metadata": {"name": "demo-clients-ca"}, "spec": {"secretName": "theirs"}}
    store.create(CERTIFICATE, NAMESPACE, theirs)
    asyncio.run(world.reconcile())
    assert store.get(CERTIFICATE, NAMESPACE, "demo-clients-ca")["spec"] == theirs["spec"]
    asyncio.run(world.reconcile())
    assert "Certificate demo-clients-ca was not made" in world.condition("Stalled")["message"]


def test_a_quota_that_takes_no_secret_is_told() -> None:
    """A new Broker had no status at all then."""
    store = FakeStore()
    way = RefusingWay(store)
    way.write = ("Secret", ForbiddenError("exceeded quota: secrets", code=403))
    world = world_with(store, way)
    asyncio.run(world.reconcile())
    assert "exceeded quota: secrets" in world.condition("Stalled")["message"]
    way.write = None
    asyncio.run(world.settle())
    assert world.condition("Ready")["status"] == "True"
