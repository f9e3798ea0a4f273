"""What brokers make of their command line: listeners, certificates, and who talks to whom."""

import base64
from collections.abc import Mapping
from hashlib import sha256
from itertools import pairwise
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from barnabas_operator.certificates.pem import bundle_digest, first_certificate
from barnabas_operator.reconcile.broker.observed import (
    ListenerTls,
)


def settings_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """The settings on the command line of a pod's broker."""
    command = pod["spec"]["containers"][0]["command"]
    given = [value for flag, value in pairwise(command) if flag == "--set"]
    return dict(one.split("=", 1) for one in given)


def listeners_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """Protocols by the name of the listener; those of the file where the command has none."""
    told = settings_of(pod).get("listener.security.protocol.map")
    told = told or "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT"
    return dict(one.split(":", 1) for one in told.split(","))


def reported_tls(
    pod: Mapping[str, Any], loaded: Mapping[str, str], node_id: int
) -> dict[str, ListenerTls]:
    """What `/status` says of each listener with TLS."""
    files = {key: base64.b64decode(text).decode() for key, text in loaded.items()}
    if f"broker-{node_id}.crt" not in files:
        return {}
    leaf = first_certificate(files[f"broker-{node_id}.crt"]).public_bytes(Encoding.DER)
    settings = settings_of(pod)
    found = {}
    for name, protocol in listeners_of(pod).items():
        if "SSL" not in protocol:
            continue
        location = settings.get(f"listener.name.{name.lower()}.ssl.truststore.location", "")
        bundle = files.get(location.rpartition("/")[2], "")
        found[name] = ListenerTls(
            trust=bundle_digest(bundle) if bundle else None,
            certificate=sha256(leaf).hexdigest(),
        )
    return found


def check_brokers_talk(pods: Mapping[int, Mapping[str, Any]]) -> None:
    """Each broker connects to the listener that its own settings name, and is taken for a broker.

    A broker takes others on the listener of its own and on those that it is told besides.
    """
    for node_id, pod in pods.items():
        wanted = settings_of(pod).get("inter.broker.listener.name", "REPLICATION")
        for other_id, other in pods.items():
            settings = settings_of(other)
            taken = {settings.get("inter.broker.listener.name", "REPLICATION")}
            taken |= set(settings.get("barnabas.other.broker.listeners", "").split(","))
            assert wanted in listeners_of(other), f"{node_id} finds no {wanted} at {other_id}"
            assert wanted in taken, f"{other_id} takes no brokers by {wanted}, as {node_id} comes"
