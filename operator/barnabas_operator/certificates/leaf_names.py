"""The names and addresses that a broker's certificate is valid for (SEC-82). Pure.

Clients inside of Kubernetes write a Service in any of its forms, `name` to
`name.namespace.svc.cluster.local`, and peers dial a pod by its headless name; probes ask by address
and check nothing. All of them are in each broker's certificate, since a bootstrap address leads to
any broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def service_names(service: str, namespace: str, cluster_domain: str) -> Iterator[str]:
    """All forms of a Service's name, the shortest first."""
    yield service
    yield f"{service}.{namespace}"
    yield f"{service}.{namespace}.svc"
    yield f"{service}.{namespace}.svc.{cluster_domain}"


def leaf_hosts(
    *,
    namespace: str,
    services: Iterable[str],
    headless: str,
    pod: str,
    advertised: Iterable[str] = (),
    cluster_domain: str = "cluster.local",
) -> tuple[str, ...]:
    """The hosts of one broker: its Services, its pod under the headless one, what clients are told.

    `advertised` are hosts without ports.
    """
    found = [
        name
        for service in (*services, headless)
        for name in service_names(service, namespace, cluster_domain)
    ]
    found += service_names(f"{pod}.{headless}", namespace, cluster_domain)
    found += ["localhost", "127.0.0.1"]
    found += advertised
    return tuple(dict.fromkeys(found))
