"""Who may reach the pods of a Broker: the rules of a NetworkPolicy. Pure.

Brokers among themselves and the operator may use any port; clients those of their listeners;
monitoring the admin port. Probes come from the node, which policies let through. A Broker of any
namespace has a policy of its own while its security is on; the chart has one besides, for its own.
"""

from __future__ import annotations

from typing import Any

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.kubernetes.objects import BROKER_LABEL
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.listener_plan import (
    EXTERNAL,
    REPLICATION,
    SECURE_REPLICATION,
    ListenerPlan,
)
from barnabas_operator.security_spec import SECURE_REPLICATION_PORT

_OPERATOR_LABELS = {"app.kubernetes.io/name": "barnabas-operator"}
# `helm test`, which shows the operator's certificate.
_TEST_LABELS = {"app.kubernetes.io/name": "barnabas-test"}
_NOT_FOR_CLIENTS = (REPLICATION, SECURE_REPLICATION, EXTERNAL)


def network_policy(spec: BrokerSpec) -> dict[str, Any] | None:
    """The spec of the policy, None where there is none."""
    rules = spec.security.network
    if not rules.is_enabled:
        return None
    pods = {BROKER_LABEL: spec.name}
    clients = [
        {"port": one.port, "protocol": "TCP"}
        for one in ListenerPlan(spec=spec).listeners
        if one.name not in _NOT_FOR_CLIENTS
    ]
    ingress: list[dict[str, Any]] = [
        {
            "from": [
                {"podSelector": {"matchLabels": pods}},
                # In whatever namespace it runs: what it may do it has to prove by its certificate.
                {"namespaceSelector": {}, "podSelector": {"matchLabels": _OPERATOR_LABELS}},
            ]
        },
        _rule(
            [{"port": SECURE_REPLICATION_PORT, "protocol": "TCP"}],
            [{"podSelector": {"matchLabels": _TEST_LABELS}}],
        ),
        _rule(clients, [dict(one) for one in rules.clients]),
    ]
    if spec.external is not None:
        port = {"port": spec.external.port, "protocol": "TCP"}
        ingress.append(_rule([port], [dict(one) for one in spec.external.peers]))
    if rules.monitoring:
        admin = {"port": names.ADMIN_PORT, "protocol": "TCP"}
        ingress.append(_rule([admin], [dict(one) for one in rules.monitoring]))
    return {
        "podSelector": {"matchLabels": pods},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }


def _rule(ports: list[dict[str, Any]], peers: list[dict[str, Any]]) -> dict[str, Any]:
    """Without peers everybody may; an empty list of them would mean the same."""
    return {"ports": ports, "from": peers} if peers else {"ports": ports}
