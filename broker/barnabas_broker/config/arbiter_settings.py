"""The settings of the arbiter: which store says who leads, and how it is reached.

Rows as in `broker_settings`; only Barnabas knows them. What must be given together is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from barnabas_broker.config.definitions import (
    INT,
    LIST,
    PASSWORD,
    STRING,
    BrokerSetting,
    ConfigError,
)

_S = BrokerSetting
_POD_FILES: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_ADDRESS: Final = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[^][/:@?#\s]+):[0-9]{1,5}")

ARBITER: Final = (
    _S(
        "arbiter.backend",
        STRING,
        "file",
        "The store that says who leads the control plane.",
        choices=("file", "etcd", "kubernetes"),
    ),
    _S(
        "arbiter.poll.interval.ms",
        INT,
        "1000",
        "Time between two looks at the store for a change of the record.",
        1,
    ),
    _S(
        "arbiter.request.timeout.ms",
        INT,
        "5000",
        "The longest wait for an answer of etcd, all endpoints together, or of Kubernetes.",
        1,
    ),
    _S(
        "arbiter.file.path",
        STRING,
        None,
        "The file of the file arbiter; unset means `arbiter.json` in the metadata's directory.",
    ),
    _S(
        "arbiter.etcd.endpoints",
        LIST,
        "",
        "Addresses of etcd's servers, as http://host:port or https://host:port, tried in turn.",
    ),
    _S("arbiter.etcd.key", STRING, "/barnabas/arbiter", "The record's key; one for each cluster."),
    _S("arbiter.etcd.username", STRING, None, "The user of etcd; unset means none."),
    _S("arbiter.etcd.password", PASSWORD, None, "The password of that user."),
    _S(
        "arbiter.etcd.ca.file",
        STRING,
        None,
        "Authorities (PEM) that etcd's certificate is checked by; unset means the system's.",
    ),
    _S(
        "arbiter.etcd.client.certificate.file",
        STRING,
        None,
        "A certificate (PEM) to show to etcd.",
    ),
    _S(
        "arbiter.etcd.client.key.file",
        STRING,
        None,
        "The key (PEM) of that certificate; unset means that it is in the same file.",
    ),
    _S(
        "arbiter.kubernetes.server",
        STRING,
        None,
        "The API server, as https://host:port; unset means the one of the pod.",
    ),
    _S(
        "arbiter.kubernetes.namespace",
        STRING,
        None,
        "The namespace of the Lease; unset means the one of the pod.",
    ),
    _S(
        "arbiter.kubernetes.lease.name",
        STRING,
        "barnabas-arbiter",
        "The Lease with the record; one for each cluster.",
    ),
    _S(
        "arbiter.kubernetes.token.file",
        STRING,
        f"{_POD_FILES}/token",
        "The token to show to the API server, read again when it is renewed; empty means none.",
    ),
    _S(
        "arbiter.kubernetes.ca.file",
        STRING,
        f"{_POD_FILES}/ca.crt",
        "Authorities (PEM) that the API server's certificate is checked by.",
    ),
)


def check_arbiter(values: Mapping[str, Any]) -> None:
    """Check the values of the arbiter's settings against each other, by attribute.

    Raises: ConfigError.
    """
    endpoints = values["arbiter_etcd_endpoints"]
    if values["arbiter_backend"] == "etcd" and not endpoints:
        raise ConfigError("arbiter.etcd.endpoints: needed for arbiter.backend=etcd")
    for endpoint in endpoints:
        _check_address("arbiter.etcd.endpoints", endpoint)
    if len({endpoint.split(":")[0] for endpoint in endpoints}) > 1:
        raise ConfigError("arbiter.etcd.endpoints: either all are https or none")
    if values["arbiter_kubernetes_server"]:
        _check_address("arbiter.kubernetes.server", values["arbiter_kubernetes_server"])


def _check_address(key: str, address: str) -> None:
    if not _ADDRESS.fullmatch(address):
        raise ConfigError(f"{key}: {address} is not http://host:port or https://host:port")
