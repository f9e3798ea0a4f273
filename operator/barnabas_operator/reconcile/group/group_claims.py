"""Which ConsumerGroups a pass over a Broker is about, and which of them cannot be served. Pure.

Not here: which Broker a reference means (`reconcile/broker_reference.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.objects import is_going, name_of, namespace_of
from barnabas_operator.reconcile.broker_reference import Place, admits, broker_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A resource that no cluster can be asked for, and why."""

    manifest: Object
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The Broker if it exists, its own resources, and the misfits."""

    broker: Object | None = None
    manifests: tuple[Object, ...] = ()
    misfits: tuple[Misfit, ...] = ()


def claims_on(place: Place, manifests: Iterable[Object], brokers: Iterable[Object]) -> Claims:
    """What concerns the Broker of that namespace and name.

    Without a name: the resources of the namespace that name no Broker and for which there is none,
    or no only one.
    """
    by_place = {(namespace_of(broker), name_of(broker)): broker for broker in brokers}
    chosen: list[Object] = []
    misfits: list[Misfit] = []
    for manifest in manifests:
        if is_going(manifest) or broker_of(manifest, by_place.keys()) != place:
            continue
        broker = by_place.get(place)
        if broker is None:
            misfits.append(_without_broker(manifest, place, by_place))
        elif not admits(broker, namespace_of(manifest)):
            message = (
                f"the Broker {place[0]}/{place[1]} takes nothing from the namespace"
                f" '{namespace_of(manifest)}'"
            )
            misfits.append(Misfit(manifest=manifest, reason="NamespaceNotAllowed", message=message))
        else:
            chosen.append(manifest)
    return Claims(broker=by_place.get(place), manifests=tuple(chosen), misfits=tuple(misfits))


def _without_broker(manifest: Object, place: Place, brokers: Iterable[Place]) -> Misfit:
    namespace, name = place
    if name:
        message = f"there is no Broker '{name}' in the namespace '{namespace}'"
        return Misfit(manifest=manifest, reason="BrokerNotFound", message=message)
    there = sorted(other for home, other in brokers if home == namespace)
    if there:
        message = f"the namespace has several Brokers ({', '.join(there)}): name one in brokerRef"
        return Misfit(manifest=manifest, reason="BrokerNotChosen", message=message)
    message = f"there is no Broker in the namespace '{namespace}': name one in brokerRef"
    return Misfit(manifest=manifest, reason="BrokerNotFound", message=message)
