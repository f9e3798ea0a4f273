"""Whether a Broker that stands for brokers run elsewhere may be worked for.

Whoever makes one names an address, and has the operator act there. Nobody is to reach so what they
could not by naming the Broker that the cluster belongs to: of several Brokers of one cluster that
one speaks for it whose brokers the operator runs, else the oldest, and the others need its leave as
resources of their namespaces do. The address of a cluster that no other Broker stands for is
anybody's; which namespaces may name addresses at all is a setting of the operator.

Not here: proof of who a cluster is. Brokers say that themselves, and who answers at an address of
somebody's choice may say anything: where that matters, the setting is what helps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_operator import conditions
from barnabas_operator.conditions import Condition
from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.objects import (
    creation_order,
    is_elsewhere,
    name_of,
    namespace_of,
    uid_of,
)
from barnabas_operator.reconcile.broker_reference import admits

NOT_ADMITTED = "ClusterNotAdmitted"


class NotAdmittedError(Exception):
    """Nothing may be done for a Broker; the text says why."""


class Elsewhere:
    """The rule, with what it looks at: the Brokers that there are, and the operator's setting."""

    def __init__(
        self,
        brokers: Callable[[], Iterable[Object]] = tuple,
        namespaces: Collection[str] = ("*",),
    ) -> None:
        """`namespaces` are those whose Brokers may name addresses, `*` for all."""
        self._brokers = brokers
        self._namespaces = frozenset(namespaces)

    def check_namespace(self, broker: Mapping[str, Any]) -> None:
        """Look at where the Broker is; before anybody connects. Raises: NotAdmittedError."""
        namespace = namespace_of(broker)
        if is_elsewhere(broker) and not self._namespaces & {"*", namespace}:
            raise NotAdmittedError(
                f"the operator takes no addresses from Brokers of the namespace {namespace}"
            )

    def check_cluster(self, broker: Mapping[str, Any], cluster_id: str) -> None:
        """Look at whose cluster it is that has answered. Raises: NotAdmittedError."""
        if not is_elsewhere(broker) or not cluster_id:
            return
        others = [
            one
            for one in self._brokers()
            if (one.get("status") or {}).get("clusterId") == cluster_id
            and uid_of(one) != uid_of(broker)
        ]
        first = min((broker, *others), key=_rank)
        if first is not broker and not admits(first, namespace_of(broker)):
            raise NotAdmittedError(
                f"its cluster is that of the Broker {namespace_of(first)}/{name_of(first)}, which"
                f" takes nothing from the namespace {namespace_of(broker)}"
            )

    async def check(self, broker: Mapping[str, Any], admin: Admin) -> None:
        """Look at the cluster that a client is connected to.

        Raises: NotAdmittedError; BarnabasError.
        """
        if is_elsewhere(broker):
            self.check_cluster(broker, (await admin.cluster.describe()).cluster_id or "")


def not_admitted(error: NotAdmittedError, generation: int = 0) -> tuple[Condition, ...]:
    """What a resource says whose cluster may not be worked for."""
    return conditions.stalled(NOT_ADMITTED, str(error), generation=generation)


def _rank(broker: Mapping[str, Any]) -> tuple[bool, tuple[str, str, str]]:
    return is_elsewhere(broker), creation_order(broker)
