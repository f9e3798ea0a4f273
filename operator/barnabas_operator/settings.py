"""How this operator runs: read once from the environment, then frozen.

Not here: what a cluster should be like; that is in the resources.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

from barnabas_protocol.settings.kinds import INTEGER, LIST, NUMBER, TEXT, Kind
from barnabas_protocol.settings.setting import Setting, SettingError

T = TypeVar("T")


class SettingsError(ValueError):
    """A variable that cannot be what it says."""


def _setting(
    variable: str,
    default: T,
    kind: Kind,
    why: str,
    minimum: float | None = None,
    maximum: float | None = None,
    check: Callable[[Any], str | None] | None = None,
) -> T:
    """Declare a field: a row of the engine of settings, named like its variable."""
    row = Setting(variable, kind, default, why, minimum, maximum, check=check)
    value: T = field(default=default, metadata={"row": row})
    return value


def _seconds(variable: str, default: float, why: str) -> float:
    return _setting(variable, default, NUMBER, why, check=_check_positive)


def _port(variable: str, default: int, why: str) -> int:
    """0 is any port that is free."""
    return _setting(variable, default, INTEGER, why, 0, 65535)


def _check_positive(value: float) -> str | None:
    return None if value > 0 else "must be more than 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """One row per variable; times are in seconds."""

    namespaces: tuple[str, ...] = _setting(
        "BARNABAS_NAMESPACES", (), LIST, "The namespaces that are watched; empty: all of them."
    )
    operator_namespace: str = _setting(
        "BARNABAS_OPERATOR_NAMESPACE",
        "",
        TEXT,
        "Where the operator runs and keeps its Lease; by default the pod's own namespace.",
    )
    identity: str = _setting(
        "BARNABAS_IDENTITY",
        "",
        TEXT,
        "Who holds the Lease: the pod's name and uid; by default the host's name.",
    )
    broker_image: str = _setting(
        "BARNABAS_BROKER_IMAGE",
        "localhost/barnabas-broker:latest",
        TEXT,
        "The image of brokers whose resource names none.",
    )
    cluster_domain: str = _setting(
        "BARNABAS_CLUSTER_DOMAIN",
        "cluster.local",
        TEXT,
        "The domain of the cluster's Services, which brokers' advertised names end with.",
    )
    elsewhere_namespaces: tuple[str, ...] = _setting(
        "BARNABAS_ELSEWHERE_NAMESPACES",
        ("*",),
        LIST,
        "The namespaces whose Brokers may stand for brokers run elsewhere; `*`: all of them.",
    )
    kubeconfig: str | None = _setting(
        "BARNABAS_KUBECONFIG",
        None,
        TEXT,
        "The file that says where the API server is; inside a pod its account does.",
    )
    http_host: str = _setting(
        "BARNABAS_HTTP_HOST", "", TEXT, "Where probes and metrics are served; empty: everywhere."
    )
    http_port: int = _port("BARNABAS_HTTP_PORT", 8080, "The port of /live, /ready and /metrics.")
    webhook_certificates: str = _setting(
        "BARNABAS_WEBHOOK_CERTIFICATES",
        "",
        TEXT,
        "The folder with tls.crt and tls.key of the eviction webhook; empty: it is not served.",
    )
    webhook_port: int = _port("BARNABAS_WEBHOOK_PORT", 8443, "The port of the eviction webhook.")
    eviction_patience_seconds: float = _seconds(
        "BARNABAS_EVICTION_PATIENCE_SECONDS",
        3600.0,
        "For so long evictions of a broker that cannot be spared are refused; then it is let go.",
    )
    workers: int = _setting(
        "BARNABAS_WORKERS",
        4,
        INTEGER,
        "How many passes go on at the same time, but for those that wait for brokers.",
        1,
    )
    resync_seconds: float = _seconds(
        "BARNABAS_RESYNC_SECONDS",
        60.0,
        "How often a cluster is looked at without anything having happened, which finds drift.",
    )
    settle_seconds: float = _seconds(
        "BARNABAS_SETTLE_SECONDS",
        0.2,
        "The wait after a change, so that many changes at once become one pass.",
    )
    unreachable_seconds: float = _seconds(
        "BARNABAS_UNREACHABLE_SECONDS",
        60.0,
        "After this long without brokers topics count as unknown and deletions are let through.",
    )
    lease_name: str = _setting(
        "BARNABAS_LEASE_NAME",
        "barnabas-operator",
        TEXT,
        "The Lease that says which replica acts.",
    )
    lease_duration_seconds: float = _seconds(
        "BARNABAS_LEASE_DURATION_SECONDS",
        15.0,
        "Others take over when the Lease has not changed for this long.",
    )
    lease_renew_deadline_seconds: float = _seconds(
        "BARNABAS_LEASE_RENEW_DEADLINE_SECONDS",
        10.0,
        "The holder stops acting this long after its last successful renewal was sent.",
    )
    lease_retry_seconds: float = _seconds(
        "BARNABAS_LEASE_RETRY_SECONDS", 2.0, "The wait between renewals."
    )
    request_timeout_seconds: float = _seconds(
        "BARNABAS_REQUEST_TIMEOUT_SECONDS",
        10.0,
        "How long one request to the API server may take.",
    )
    admin_timeout_seconds: float = _seconds(
        "BARNABAS_ADMIN_TIMEOUT_SECONDS",
        15.0,
        "How long one call to the brokers may take, with its repetitions.",
    )
    stuck_seconds: float = _seconds(
        "BARNABAS_STUCK_SECONDS",
        300.0,
        "The liveness probe fails when no work is taken, or watching lags, for this long.",
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
        values: dict[str, Any] = {}
        for one in fields(cls):
            row: Setting = one.metadata["row"]
            text = environment.get(row.name, "")
            if not text:
                continue
            try:
                values[one.name] = row.accept(text)
            except SettingError as error:
                raise SettingsError(f"{row.name}={text}: {error.reason}") from error
        return cls(**values)

    @property
    def is_clusterwide(self) -> bool:
        """Whether all namespaces are watched."""
        return not self.namespaces
