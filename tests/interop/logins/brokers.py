"""One Apache Kafka and one Barnabas with the same listeners, users, certificates and tokens.

PLAINTEXT for whoever prepares them, SSL, MUTUAL (clients show certificates), SASL (every mechanism,
by TLS), and NARROW_256 and NARROW_512, which take one mechanism each. All properties are Kafka's,
so both brokers get the same; what one of them needs besides is in `_OF_KIND`.
"""

import time
from pathlib import Path
from typing import Final

from barnabas_client import Admin
from barnabas_client.admin.values.scram import ScramMechanism, ScramUpsertion
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import DAY, Authority, Issued
from tests.support.processes import free_port
from tests.support.signed_tokens import SignedTokens

VERSION: Final = "4.4.0"
KINDS: Final = ("apache", "barnabas")
USER: Final = "alice"
PASSWORD: Final = "alices-secret"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_SSL",
    "NARROW_256": "SASL_SSL",
    "NARROW_512": "SASL_SSL",
}
_MODULES: Final = "org.apache.kafka.common.security"
_OAUTH: Final = f"{_MODULES}.oauthbearer"


class LoginFiles:
    """Certificates and tokens, good ones and others."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._authority, self._stranger = Authority("Right"), Authority("Stranger")
        self.authority = self._written("ca.crt", self._authority.pem)
        self.other_authority = self._written("other.crt", self._stranger.pem)
        self.broker_store = self._store("broker", self._authority.issue(hosts=["localhost"]))
        self.tokens = SignedTokens(directory / "jwks.json")
        self.keys = self.tokens.write_keys()
        issued = {
            "right": self._authority.issue(USER),
            "stranger": self._stranger.issue(USER),
            "expired": self._authority.issue(USER, begins=-2 * DAY, ends=-DAY),
        }
        self.certificates = {
            name: (self._store(name, one), *one.write(directory, f"{name}-pair"))
            for name, one in issued.items()
        }
        """For each: key and chain in one file, the chain, the key."""
        now = int(time.time())
        strange = SignedTokens(directory / "strange.json")
        self.token_files = {
            name: self._written(f"{name}.token", token.encode())
            for name, token in {
                "right": self.tokens.token(USER, 3600),
                "another key": strange.token(USER, 3600),
                "another audience": self.tokens.token(USER, 3600, aud="another"),
                "another issuer": self.tokens.token(USER, 3600, iss="https://another.example"),
                "expired": self.tokens.token(USER, iat=now - 1200, exp=now - 600),
            }.items()
        }

    def _written(self, name: str, content: bytes) -> Path:
        path = self._directory / name.replace(" ", "-")
        path.write_bytes(content)
        return path

    def _store(self, name: str, issued: Issued) -> Path:
        return self._written(f"{name}.pem", issued.key_pem + issued.chain_pem)


class LoginBroker:
    """One of the two, and its ports by listener."""

    def __init__(self, kind: str, directory: Path, files: LoginFiles) -> None:
        self.kind = kind
        self.ports = {name: free_port() for name in _PROTOCOLS}
        node: ApacheKafka | BarnabasProcess
        if kind == "apache":
            options = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={files.keys.as_uri()}",)
            node = ApacheKafka(
                directory,
                self.ports["PLAINTEXT"],
                version=VERSION,
                heap="384m",
                log_level="ERROR",
                jvm_options=("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options),
            )
            own, internal = f"CONTROLLER://127.0.0.1:{node.controller_port}", "CONTROLLER"
        else:
            node = BarnabasProcess(directory, self.ports["PLAINTEXT"])
            own, internal = f"REPLICATION://127.0.0.1:{node.replication_port}", "REPLICATION"
        self.node = node
        addresses = ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items())
        of_brokers = "" if kind == "apache" else f",{own}"
        node.properties |= {
            "listeners": f"{addresses},{own}",
            "advertised.listeners": addresses + of_brokers,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items()
            )
            + f",{internal}:PLAINTEXT",
            **_properties(files),
            **(_of_apache() if kind == "apache" else {}),
        }

    def address(self, listener: str) -> str:
        """Where a listener is."""
        return f"localhost:{self.ports[listener]}"

    async def prepare(self) -> None:
        """Store the passwords for SCRAM; a request changes one mechanism of a user."""
        async with Admin(self.address("PLAINTEXT")) as admin:
            for mechanism in (ScramMechanism.SHA_256, ScramMechanism.SHA_512):
                wanted = ScramUpsertion(user=USER, mechanism=mechanism, password=PASSWORD)
                (await admin.scram.alter([wanted])).unwrap()


def _properties(files: LoginFiles) -> dict[str, str]:
    sasl = "listener.name.sasl"
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.broker_store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        "listener.name.mutual.ssl.client.auth": "required",
        f"{sasl}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.narrow_256.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.narrow_512.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{sasl}.plain.sasl.jaas.config": (
            f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        f"{sasl}.oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        "sasl.oauthbearer.jwks.endpoint.url": files.keys.as_uri(),
        "sasl.oauthbearer.expected.audience": files.tokens.audience,
        "sasl.oauthbearer.expected.issuer": files.tokens.issuer,
    }
    for listener in ("sasl", "narrow_256", "narrow_512"):
        for bits in ("256", "512"):
            if listener in ("sasl", f"narrow_{bits}"):
                properties[f"listener.name.{listener}.scram-sha-{bits}.sasl.jaas.config"] = (
                    f"{_MODULES}.scram.ScramLoginModule required;"
                )
    return properties


def _of_apache() -> dict[str, str]:
    """What Barnabas does by itself: brokers' listener, verified tokens."""
    handler = f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
    return {
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": handler,
        # By default this version takes tokens as they come (CVE-2026-33557).
        "sasl.oauthbearer.jwt.validator.class": f"{_OAUTH}.BrokerJwtValidator",
    }
