"""An Apache Kafka with all that administrators can switch on: rights, log-ins, tokens, two disks.

The plain listener takes everybody as `User:ANONYMOUS`, who may do everything, as may `User:root`,
who logs in on the SASL listener.
"""

from pathlib import Path

from tests.support.apache_kafka import ApacheKafka
from tests.support.processes import free_port

USERNAME = "root"
PASSWORD = "secret"
_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{USERNAME}" password="{PASSWORD}" user_{USERNAME}="{PASSWORD}";'
)


class SecuredKafka:
    """The broker, its addresses and its directories."""

    def __init__(self, directory: Path) -> None:
        port, self.sasl_port = free_port(), free_port()
        self.directories = (str(directory / "data"), str(directory / "data-2"))
        protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT"
        brokers = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{self.sasl_port}"
        self.broker = ApacheKafka(directory, port=port, heap="512M")
        self.broker.properties |= {
            "listeners": f"{brokers},CONTROLLER://127.0.0.1:{self.broker.controller_port}",
            "advertised.listeners": brokers,
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": protocols,
            "log.dirs": ",".join(self.directories),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USERNAME}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl.plain.sasl.jaas.config": _LOGIN,
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "delegation.token.secret.key": "a-key-for-tests",
            "group.coordinator.rebalance.protocols": "classic,consumer,streams",
            "unstable.api.versions.enable": "true",
            "unstable.feature.versions.enable": "true",
        }

    @property
    def bootstrap(self) -> str:
        """The listener that asks for no log-in."""
        return self.broker.bootstrap

    @property
    def sasl_bootstrap(self) -> str:
        """The listener that asks for one."""
        return f"127.0.0.1:{self.sasl_port}"
