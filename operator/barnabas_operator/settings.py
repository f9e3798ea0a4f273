"""How this operator runs: read once from the environment, then frozen.

Not here: what a cluster should be like; that is in the resources.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

T = TypeVar("T")


class SettingsError(ValueError):
    """A variable that cannot be what it says."""


def _setting(variable: str, default: T, parse: Callable[[str], Any], why: str) -> T:
    """A row: the variable, its default, how its text is read, one sentence why it is there."""
    value: T = field(default=default, metadata={"variable": variable, "parse": parse, "why": why})
    return value


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError("must be 1 or more")
    return int(text)


def _port(text: str) -> int:
    if not 0 <= int(text) < 65536:
        raise ValueError("must be a port, 0 for any that is free")
    return int(text)


def _seconds(text: str) -> float:
    if not float(text) > 0:
        raise ValueError("must be more than 0")
    return float(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """One row per variable; times are in seconds."""

    namespaces: tuple[str, ...] = _setting(
        "BARNABAS_NAMESPACES", (), _names, "The namespaces that are watched; empty: all of them."
    )
    operator_namespace: str = _setting(
        "BARNABAS_OPERATOR_NAMESPACE",
        "",
        str,
        "Where the operator runs and keeps its Lease; by default the pod's own namespace.",
    )
    identity: str = _setting(
        "BARNABAS_IDENTITY",
        "",
        str,
        "Who holds the Lease: the pod's name and uid; by default the host's name.",
    )
    broker_image: str = _setting(
        "BARNABAS_BROKER_IMAGE",
        "localhost/barnabas-broker:latest",
        str,
        "The image of brokers whose resource names none.",
    )
    cluster_domain: str = _setting(
        "BARNABAS_CLUSTER_DOMAIN",
        "cluster.local",
        str,
        "The domain of the cluster's Services, which brokers' advertised names end with.",
    )
    kubeconfig: str | None = _setting(
        "BARNABAS_KUBECONFIG",
        None,
        str,
        "The file that says where the API server is; inside a pod its account does.",
    )
    http_host: str = _setting(
        "BARNABAS_HTTP_HOST", "", str, "Where probes and metrics are served; empty: everywhere."
    )
    http_port: int = _setting(
        "BARNABAS_HTTP_PORT", 8080, _port, "The port of /live, /ready and /metrics."
    )
    webhook_certificates: str = _setting(
        "BARNABAS_WEBHOOK_CERTIFICATES",
        "",
        str,
        "The folder with tls.crt and tls.key of the eviction webhook; empty: it is not served.",
    )
    webhook_port: int = _setting(
        "BARNABAS_WEBHOOK_PORT", 8443, _port, "The port of the eviction webhook."
    )
    eviction_patience_seconds: float = _setting(
        "BARNABAS_EVICTION_PATIENCE_SECONDS",
        3600.0,
        _seconds,
        "For so long evictions of a broker that cannot be spared are refused; then it is let go.",
    )
    workers: int = _setting(
        "BARNABAS_WORKERS", 4, _count, "How many clusters are reconciled at the same time."
    )
    resync_seconds: float = _setting(
        "BARNABAS_RESYNC_SECONDS",
        60.0,
        _seconds,
        "How often a cluster is looked at without anything having happened, which finds drift.",
    )
    settle_seconds: float = _setting(
        "BARNABAS_SETTLE_SECONDS",
        0.2,
        _seconds,
        "The wait after a change, so that many changes at once become one pass.",
    )
    unreachable_seconds: float = _setting(
        "BARNABAS_UNREACHABLE_SECONDS",
        60.0,
        _seconds,
        "After this long without brokers topics count as unknown and deletions are let through.",
    )
    lease_name: str = _setting(
        "BARNABAS_LEASE_NAME",
        "barnabas-operator",
        str,
        "The Lease that says which replica acts.",
    )
    lease_duration_seconds: float = _setting(
        "BARNABAS_LEASE_DURATION_SECONDS",
        15.0,
        _seconds,
        "Others take over when the Lease has not changed for this long.",
    )
    lease_renew_deadline_seconds: float = _setting(
        "BARNABAS_LEASE_RENEW_DEADLINE_SECONDS",
        10.0,
        _seconds,
        "The holder stops acting this long after its last successful renewal was sent.",
    )
    lease_retry_seconds: float = _setting(
        "BARNABAS_LEASE_RETRY_SECONDS", 2.0, _seconds, "The wait between renewals."
    )
    request_timeout_seconds: float = _setting(
        "BARNABAS_REQUEST_TIMEOUT_SECONDS",
        10.0,
        _seconds,
        "How long one request to the API server may take.",
    )
    admin_timeout_seconds: float = _setting(
        "BARNABAS_ADMIN_TIMEOUT_SECONDS",
        15.0,
        _seconds,
        "How long one call to the brokers may take, with its repetitions.",
    )
    stuck_seconds: float = _setting(
        "BARNABAS_STUCK_SECONDS",
        300.0,
        _seconds,
        "The liveness probe fails when work waits, or watching lags, for this long.",
    )

    def __post_init__(self) -> None:
        """Refuse times that would let two replicas act at once."""
        if not (
            self.lease_retry_seconds
            < self.lease_renew_deadline_seconds
            < self.lease_duration_seconds
        ):
            raise SettingsError(
                "the Lease's times must rise: retry < renew deadline < duration, not"
                f" {self.lease_retry_seconds}, {self.lease_renew_deadline_seconds},"
                f" {self.lease_duration_seconds}"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The settings of this process; empty variables count as not set.

        Raises: SettingsError naming the variable.
        """
        rows = {row.metadata["variable"]: row for row in fields(cls)}
        values: dict[str, Any] = {}
        for variable, row in rows.items():
            text = environment.get(variable, "")
            if not text:
                continue
            try:
                values[row.name] = row.metadata["parse"](text)
            except ValueError as error:
                raise SettingsError(f"{variable}={text}: {error}") from error
        return cls(**values)

    @property
    def is_clusterwide(self) -> bool:
        """Whether all namespaces are watched."""
        return not self.namespaces
