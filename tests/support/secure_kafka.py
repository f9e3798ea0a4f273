"""An Apache Kafka with a listener for each way of securing a connection.

PLAINTEXT for the broker itself, SSL, SASL_PLAINTEXT and SASL_SSL for clients. The user `alice` has
the password `alice-secret` in every mechanism; SASL_SSL also takes tokens that `tokens` signs.
"""

from pathlib import Path

from tests.support.apache_kafka import ApacheKafka, kafka_jars
from tests.support.cache import run
from tests.support.processes import free_port
from tests.support.signed_tokens import SignedTokens
from tests.support.tls_files import KEYSTORE_PASSWORD, TlsFiles

USERNAME = "alice"
PASSWORD = "alice-secret"
SESSION_MS = 4000
"""How long a log-in lasts on the SASL_PLAINTEXT listener, so that clients repeat it (KIP-368)."""
_PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{USERNAME}="{PASSWORD}";'
)
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class SecureKafka:
    """The node, the certificates and the ports."""

    def __init__(self, directory: Path) -> None:
        self.tls = TlsFiles(directory / "tls").create()
        self.ports = {name: free_port() for name in _LISTENERS}
        self.tokens = SignedTokens(directory / "jwks.json")
        keys = self.tokens.write_keys().as_uri()
        self.node = ApacheKafka(
            directory / "node",
            self.ports["PLAINTEXT"],
            heap="512M",
            log_level="ERROR",
            jvm_options=(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}",),
        )
        addresses = [f"{name}://localhost:{port}" for name, port in self.ports.items()]
        controller = f"CONTROLLER://127.0.0.1:{self.node.controller_port}"
        self.node.properties.update(
            {
                "listeners": ",".join([*addresses, controller]),
                "advertised.listeners": ",".join(addresses),
                "inter.broker.listener.name": "PLAINTEXT",
                "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in _LISTENERS)
                + ",CONTROLLER:PLAINTEXT",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(self.tls.broker_keystore),
                "ssl.keystore.password": KEYSTORE_PASSWORD,
                "ssl.key.password": KEYSTORE_PASSWORD,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.tls.authority),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.sasl_ssl.sasl.enabled.mechanisms": (
                    "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
                ),
                "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
                    f"{_OAUTH}.OAuthBearerLoginModule required;"
                ),
                "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": (
                    f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
                ),
                # By default this version takes tokens as they come (CVE-2026-33557).
                "sasl.oauthbearer.jwt.validator.class": f"{_OAUTH}.BrokerJwtValidator",
                "sasl.oauthbearer.jwks.endpoint.url": keys,
                "sasl.oauthbearer.expected.audience": self.tokens.audience,
                "sasl.oauthbearer.expected.issuer": self.tokens.issuer,
                "listener.name.sasl_plaintext.connections.max.reauth.ms": str(SESSION_MS),
            }
        )
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            self.node.properties[f"{prefix}.plain.sasl.jaas.config"] = _PLAIN
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                self.node.properties[f"{prefix}.{mechanism}.sasl.jaas.config"] = _SCRAM

    def address(self, protocol: str) -> str:
        """Where the listener of a security protocol is."""
        return f"localhost:{self.ports[protocol]}"

    def start(self) -> None:
        """Start the node and store the SCRAM credentials."""
        self.node.start()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):  # one request cannot store both
            change = f"{mechanism}=[password={PASSWORD}]"
            run(
                [
                    *("java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*"),
                    *("kafka.admin.ConfigCommand", "--bootstrap-server", self.address("PLAINTEXT")),
                    *("--alter", "--add-config", change),
                    *("--entity-type", "users", "--entity-name", USERNAME),
                ]
            )

    def stop(self) -> None:
        """Stop the node."""
        if self.node.process is not None:
            self.node.stop()
