"""Which ConsumerGroups a pass over a Broker is about, and which of them cannot be served. Pure.

Not here: which Broker a reference means (`reconcile/broker_reference.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.objects import is_going, namespace_of
from barnabas_operator.reconcile.broker_reference import NamespacedName, admits
from barnabas_operator.reconcile.portions import Portion


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


def claims_on(broker_name: NamespacedName, portion: Portion) -> Claims:
    """What concerns the Broker of that namespace and name.

    Without a name: the resources of the namespace that name no Broker and for which there is none,
    or no only one.
    """
    broker = portion.broker
    chosen: list[Object] = []
    misfits: list[Misfit] = []
    for manifest in portion.resources:
        if is_going(manifest):
            continue
        if broker is None:
            misfits.append(_without_broker(manifest, broker_name, portion.brokers))
        elif not admits(broker, namespace_of(manifest)):
            message = (
                f"the Broker {broker_name[0]}/{broker_name[1]} takes nothing from the namespace"
                f" '{namespace_of(manifest)}'"
            )
            misfits.append(Misfit(manifest=manifest, reason="NamespaceNotAllowed", message=message))
        else:
            chosen.append(manifest)
    return Claims(broker=broker, manifests=tuple(chosen), misfits=tuple(misfits))


def _without_broker(
    manifest: Object, broker_name: NamespacedName, brokers: Iterable[NamespacedName]
) -> Misfit:
    namespace, name = broker_name
    if name:
        message = f"there is no Broker '{name}' in the namespace '{namespace}'"
        return Misfit(manifest=manifest, reason="BrokerNotFound", message=message)
    there = sorted(other for home, other in brokers if home == namespace)
    if there:
        message = f"the namespace has several Brokers ({', '.join(there)}): name one in brokerRef"
        return Misfit(manifest=manifest, reason="BrokerNotChosen", message=message)
    message = f"there is no Broker in the namespace '{namespace}': name one in brokerRef"
    return Misfit(manifest=manifest, reason="BrokerNotFound", message=message)
