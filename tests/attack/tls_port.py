"""A listener with TLS for each broker that is attacked."""

from collections.abc import Iterable
from pathlib import Path

from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import Authority
from tests.support.processes import free_port

_NAME = "ATTACKED_TLS"


def add_tls(brokers: Iterable[BarnabasProcess], directory: Path) -> None:
    """Give brokers that are not started one listener more."""
    chain, key = Authority().issue().write(directory)
    store = directory / "store.pem"
    store.write_bytes(chain.read_bytes() + key.read_bytes())
    for broker in brokers:
        listener = f",{_NAME}://{broker.host}:{free_port()}"
        for name in ("listeners", "advertised.listeners"):
            broker.properties[name] += listener
        broker.properties |= {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{_NAME}:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
        }


def tls_port_of(broker: BarnabasProcess) -> int:
    """Where that listener is."""
    return int(broker.properties["listeners"].rpartition(":")[2])
