"""Makes the arbiter that the settings name. It decides nothing else.

The modules of stores that are reached over HTTP are imported only where they are used.
"""

import posixpath
from collections.abc import Mapping

from barnabas_broker.arbiter.arbiter import Arbiter
from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk


def make_arbiter(
    config: BrokerConfig,
    disk: Disk,
    clock: Clock,
    environment: Mapping[str, str] | None = None,
    *,
    directory: str | None = None,
) -> Arbiter:
    """The arbiter of `arbiter.backend`; it connects with its first request.

    A file is in `directory`, where the metadata log is, unless its path is set. The environment is
    the process's own, unless another one is given.
    Raises: ConfigError where the pod's own settings are needed outside of a pod.
    """
    match config.arbiter_backend:
        case "etcd":
            return _etcd(config)
        case "kubernetes":
            return _kubernetes(config, disk, clock, environment)
        case _:
            from barnabas_broker.arbiter.local_file import LocalFileArbiter

            path = config.arbiter_file_path
            if directory is not None and not config.properties.get("arbiter.file.path"):
                path = f"{directory}/arbiter.json"
            return LocalFileArbiter(disk, clock, path, config.arbiter_poll_interval_ms)


def _etcd(config: BrokerConfig) -> Arbiter:
    from barnabas_broker.arbiter.etcd import EtcdArbiter, EtcdSettings
    from barnabas_broker.env.http_client import TlsSettings

    return EtcdArbiter(
        EtcdSettings(
            endpoints=config.arbiter_etcd_endpoints,
            key=config.arbiter_etcd_key,
            username=config.arbiter_etcd_username,
            password=config.arbiter_etcd_password,
            tls=TlsSettings(
                config.arbiter_etcd_ca_file,
                config.arbiter_etcd_client_certificate_file,
                config.arbiter_etcd_client_key_file,
            ),
            request_timeout_ms=config.arbiter_request_timeout_ms,
            poll_interval_ms=config.arbiter_poll_interval_ms,
        )
    )


def _kubernetes(
    config: BrokerConfig, disk: Disk, clock: Clock, environment: Mapping[str, str] | None
) -> Arbiter:
    from barnabas_broker.arbiter.kubernetes_lease import KubernetesLeaseArbiter
    from barnabas_broker.env.kubernetes_api import (
        KubernetesAccess,
        KubernetesApi,
        server_of_pod,
    )

    server = config.arbiter_kubernetes_server or server_of_pod(environment)
    if server is None:
        raise ConfigError("arbiter.kubernetes.server: needed outside of a pod")
    access = KubernetesAccess(
        server=server,
        token_file=config.arbiter_kubernetes_token_file or None,
        authority_file=config.arbiter_kubernetes_ca_file or None,
        request_timeout_ms=config.arbiter_request_timeout_ms,
    )
    namespace = config.arbiter_kubernetes_namespace or _namespace_of_pod(config, disk)
    return KubernetesLeaseArbiter(
        KubernetesApi(disk, clock, access),
        namespace,
        config.arbiter_kubernetes_lease_name,
        config.arbiter_poll_interval_ms,
    )


def _namespace_of_pod(config: BrokerConfig, disk: Disk) -> str:
    """The namespace that the kubelet writes beside the token. Raises: ConfigError."""
    token_file = config.arbiter_kubernetes_token_file or ""
    path = posixpath.join(posixpath.dirname(token_file), "namespace")
    try:
        return bytes(disk.read_bytes(path)).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"arbiter.kubernetes.namespace: not set, and {path}: {error}") from error
