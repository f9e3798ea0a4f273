"""The log-ins that are tried: for each way in, the right one and the ways in which it fails.

A case says what a client is to do in words that belong to no client; each program turns them into
its own settings. Pure.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.interop.logins.brokers import MECHANISMS, PASSWORD, USER, LoginBroker, LoginFiles

SOON_SECONDS: Final = 6
"""For what a client tries for ever: it must not be in by then."""
LATER_SECONDS: Final = 60
"""For what ends by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginCase:
    """What a client is to do; empty where it is to do without."""

    name: str
    address: str
    protocol: str
    authority: str = ""
    mechanism: str = ""
    username: str = ""
    password: str = ""
    token_file: str = ""
    store: str = ""
    certificate: str = ""
    key: str = ""
    seconds: int = LATER_SECONDS

    def plain(self) -> dict[str, object]:
        """The same for other processes."""
        return asdict(self)


def login_cases(broker: LoginBroker, files: LoginFiles) -> list[LoginCase]:
    """Every case against one broker."""
    return [
        *_by_tls(broker, files),
        *_by_certificate(broker, files),
        *(case for name in MECHANISMS for case in _by_sasl(name, broker, files)),
        *_strangers_to_sasl(broker, files),
    ]


def _by_tls(broker: LoginBroker, files: LoginFiles) -> list[LoginCase]:
    address, port = broker.address("SSL"), broker.ports["SSL"]
    trusted, other = str(files.authority), str(files.other_authority)
    elsewhere = f"127.0.0.1:{port}"
    return [
        LoginCase(name="TLS, right", address=address, protocol="SSL", authority=trusted),
        LoginCase(name="TLS, another authority", address=address, protocol="SSL", authority=other),
        LoginCase(name="TLS, another host", address=elsewhere, protocol="SSL", authority=trusted),
        LoginCase(
            name="TLS, a plain client", address=address, protocol="PLAINTEXT", seconds=SOON_SECONDS
        ),
        LoginCase(
            name="plain, a client by TLS",
            address=broker.address("PLAINTEXT"),
            protocol="SSL",
            authority=trusted,
            seconds=SOON_SECONDS,
        ),
    ]


def _by_certificate(broker: LoginBroker, files: LoginFiles) -> list[LoginCase]:
    def case(name: str, shown: str) -> LoginCase:
        store, certificate, key = files.certificates.get(shown, ("", "", ""))
        return LoginCase(
            name=f"mutual TLS, {name}",
            address=broker.address("MUTUAL"),
            protocol="SSL",
            authority=str(files.authority),
            store=str(store),
            certificate=str(certificate),
            key=str(key),
        )

    return [
        case("right", "right"),
        case("a certificate of another authority", "stranger"),
        case("an expired certificate", "expired"),
        case("no certificate", ""),
    ]


def _by_sasl(mechanism: str, broker: LoginBroker, files: LoginFiles) -> list[LoginCase]:
    narrow = "NARROW_512" if mechanism == "SCRAM-SHA-256" else "NARROW_256"

    def case(
        name: str,
        *,
        listener: str = "SASL",
        user: tuple[str, str] = (USER, PASSWORD),
        token: str = "right",
    ) -> LoginCase:
        is_token = mechanism == "OAUTHBEARER"
        return LoginCase(
            name=f"{mechanism}, {name}",
            address=broker.address(listener),
            protocol="SASL_SSL",
            authority=str(files.authority),
            mechanism=mechanism,
            username="" if is_token else user[0],
            password="" if is_token else user[1],
            token_file=str(files.token_files[token]) if is_token else "",
        )

    cases = [case("right"), case("wrong mechanism", listener=narrow)]
    if mechanism == "OAUTHBEARER":
        wrong = ("another key", "another audience", "another issuer", "expired")
        return [*cases, *(case(one, token=one) for one in wrong)]
    return [
        *cases,
        case("wrong password", user=(USER, "wrong")),
        case("unknown user", user=("nobody", PASSWORD)),
    ]


def _strangers_to_sasl(broker: LoginBroker, files: LoginFiles) -> list[LoginCase]:
    address = broker.address("SASL")
    return [
        LoginCase(
            name="SASL, a plain client", address=address, protocol="PLAINTEXT", seconds=SOON_SECONDS
        ),
        LoginCase(
            name="SASL, a client that does not log in",
            address=address,
            protocol="SSL",
            authority=str(files.authority),
            seconds=SOON_SECONDS,
        ),
        LoginCase(
            name="SASL, a log-in where nobody asks for it",
            address=broker.address("SSL"),
            protocol="SASL_SSL",
            authority=str(files.authority),
            mechanism="PLAIN",
            username=USER,
            password=PASSWORD,
        ),
    ]


def write_properties(case: LoginCase, directory: Path, number: int) -> Path:
    """The settings of a case for Java."""
    module = "org.apache.kafka.common.security"
    lines = {
        "bootstrap.servers": case.address,
        "security.protocol": case.protocol,
        "default.api.timeout.ms": str(1000 * case.seconds),
        "request.timeout.ms": str(1000 * case.seconds),
    }
    if case.authority:
        lines |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": case.authority}
    if case.store:
        lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": case.store}
    if case.mechanism:
        lines["sasl.mechanism"] = case.mechanism
    if case.token_file:
        # Log-ins are shared by those whose texts are the same.
        space = " " * (number + 1)
        lines["sasl.jaas.config"] = f"{module}.oauthbearer.OAuthBearerLoginModule required{space};"
        lines["sasl.oauthbearer.token.endpoint.url"] = Path(case.token_file).as_uri()
        lines["sasl.login.callback.handler.class"] = (
            f"{module}.oauthbearer.OAuthBearerLoginCallbackHandler"
        )
    elif case.mechanism:
        login = "plain.PlainLoginModule" if case.mechanism == "PLAIN" else "scram.ScramLoginModule"
        lines["sasl.jaas.config"] = (
            f'{module}.{login} required username="{case.username}" password="{case.password}";'
        )
    path = directory / f"{number}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path
