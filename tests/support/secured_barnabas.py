"""A Barnabas with a listener for passwords and tokens, and one for certificates."""

from datetime import UTC, datetime
from pathlib import Path

from barnabas_cli.dev_security import DevSecurity
from barnabas_operator.certificates.authority import Authority, LeafRequest, read_authority
from tests.support.barnabas_process import BarnabasProcess
from tests.support.processes import free_port
from tests.support.signed_tokens import SignedTokens

SESSION_MS = 2500
"""How long a log-in by password lasts, so that clients repeat it (KIP-368)."""


class SecuredBarnabas:
    """The broker, and files for its clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = BarnabasProcess(directory / "broker")
        self.certificate_port = free_port()
        address = f"127.0.0.1:{self.broker.port}"
        self.security = DevSecurity(data=directory, count=2, bootstrap=address)
        self.security.write_broker_files(datetime.now(UTC))
        self.security.write_client_files()
        self.tokens = SignedTokens(directory / "jwks.json")
        clients = f"SASL_SSL://{address},SSL://127.0.0.1:{self.certificate_port}"
        replication = f"REPLICATION://127.0.0.1:{self.broker.replication_port}"
        self.broker.properties |= {
            **self.security.settings(1),
            "listeners": f"{clients},{replication}",
            "advertised.listeners": f"{clients},{replication}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,REPLICATION:SSL",
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.sasl_ssl.connections.max.reauth.ms": str(SESSION_MS),
            "barnabas.scram.previous.credential.ms": "600000",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": self.tokens.write_keys().as_uri(),
            "sasl.oauthbearer.expected.issuer": self.tokens.issuer,
            "sasl.oauthbearer.expected.audience": self.tokens.audience,
        }

    @property
    def token_path(self) -> Path:
        """Where `bearer` leaves the token."""
        return self.directory / "token"

    @property
    def authority(self) -> Authority:
        """The one that the broker trusts."""
        folder = self.security.folder
        return read_authority((folder / "ca.crt").read_text(), (folder / "ca.key").read_text())

    def admin(self) -> tuple[str, str]:
        """The super user, for the command line."""
        return "--command-config", str(self.security.client_properties)

    def user(self, name: str, password: str) -> tuple[str, str]:
        """A user with a password."""
        lines = self.security.client_properties.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("sasl.jaas.config")]
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        kept.append(f'sasl.jaas.config={module} username="{name}" password="{password}";')
        return self._file(f"{name}-{len(list(self.directory.iterdir()))}", kept)

    def holder(self, name: str, authority: Authority | None = None) -> tuple[str, str]:
        """Somebody with a certificate; of the broker's authority, if none is named."""
        issuer = authority or self.authority
        pair = issuer.issue(LeafRequest(common_name=name), datetime.now(UTC))
        store = self.directory / f"{name}.pem"
        store.write_text(pair.key + pair.chain)
        return self._file(
            name,
            [
                f"bootstrap.servers=127.0.0.1:{self.certificate_port}",
                "security.protocol=SSL",
                f"ssl.truststore.location={self.security.folder / 'ca.crt'}",
                *([f"ssl.keystore.location={store}"] if name != "nobody" else []),
            ],
        )

    def bearer(self, token: str) -> tuple[str, str]:
        """Somebody with a token in a file, in the words of Java."""
        path = self.token_path
        path.write_text(f"{token}\n")
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        return self._file(
            "bearer",
            [
                f"bootstrap.servers={self.broker.bootstrap}",
                "security.protocol=SASL_SSL",
                "sasl.mechanism=OAUTHBEARER",
                f"sasl.jaas.config={module} required;",
                f"sasl.oauthbearer.token.endpoint.url={path.as_uri()}",
                f"ssl.truststore.location={self.security.folder / 'ca.crt'}",
            ],
        )

    def _file(self, name: str, lines: list[str]) -> tuple[str, str]:
        path = self.directory / f"{name}.properties"
        path.write_text("\n".join(lines) + "\n")
        return "--command-config", str(path)
