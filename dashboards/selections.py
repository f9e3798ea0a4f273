# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""What all dashboards of brokers select by: the cluster is the job, the broker the instance.

Outside of Kubernetes series have no namespace; `.*` matches that, too.
"""

from typing import Final

from dashboards.panels import Variable

CLUSTER: Final = 'namespace=~"$namespace",job=~"$cluster"'
NAMESPACE_VARIABLE: Final = Variable(
    name="namespace",
    label="Namespace",
    query="label_values(barnabas_broker_state, namespace)",
)
CLUSTER_VARIABLE: Final = Variable(
    name="cluster",
    label="Cluster",
    query='label_values(barnabas_broker_state{namespace=~"$namespace"}, job)',
)


def of(name: str, *more: str) -> str:
    """A metric of the chosen clusters."""
    return f"{name}{{{','.join((CLUSTER, *more))}}}"


def rate(name: str, *more: str) -> str:
    """How fast a counter of the chosen clusters rises, a second."""
    return f"rate({of(name, *more)}[$__rate_interval])"
