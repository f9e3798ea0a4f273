"""SASL and TLS against a real Apache Kafka: what lets us in, and how it looks when nothing does."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.config.properties_file import client_settings_in, read_properties_file
from barnabas_client.errors import (
    AuthenticationError,
    BarnabasError,
    BrokerUnreachableError,
    ConfigurationError,
)
from barnabas_client.network import Client
from barnabas_protocol.messages.metadata import MetadataRequest
from tests.support.apache_kafka import kafka_jars
from tests.support.cache import run
from tests.support.in_process_broker import eventually
from tests.support.secure_kafka import PASSWORD, USERNAME, SecureKafka

pytestmark = pytest.mark.interop
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    broker = SecureKafka(tmp_path_factory.mktemp("secure"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def settings(kafka: SecureKafka, protocol: str, **more: object) -> ClientSettings:
    values: dict[str, object] = {
        "bootstrap_servers": kafka.address(protocol),
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL") and more.get("sasl_mechanism") != "OAUTHBEARER":
        values |= {"sasl_username": USERNAME, "sasl_password": PASSWORD}
    if protocol.endswith("SSL"):
        values |= {"ssl_cafile": str(kafka.tls.authority)}
    return ClientSettings.create(values | more)


async def ask(client: Client) -> None:
    (node_id,) = client.cluster.nodes
    assert (await client.request(node_id, MetadataRequest(topics=[]))).brokers


def enter(chosen: ClientSettings) -> None:
    async def run() -> None:
        client = Client(chosen)
        await client.start()
        try:
            await ask(client)
        finally:
            await client.close()

    asyncio.run(run())


def refusal(chosen: ClientSettings) -> BarnabasError:
    """The error with which starting fails; it must not take the whole timeout."""

    async def run() -> BarnabasError:
        with pytest.raises(BarnabasError) as raised:
            await Client(chosen).start()
        return raised.value

    error = asyncio.run(run())
    assert "\n" not in str(error)
    return error


def test_tls_lets_us_in(kafka: SecureKafka) -> None:
    """The broker's certificate is signed by the authority that we name."""
    enter(settings(kafka, "SSL"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_right_credentials_let_us_in(kafka: SecureKafka, protocol: str, mechanism: str) -> None:
    """RFC 4616 and RFC 5802 as Kafka's brokers speak them."""
    enter(settings(kafka, protocol, sasl_mechanism=mechanism))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_quickly(kafka: SecureKafka, mechanism: str) -> None:
    """One clear line and no retries: nothing but other credentials helps."""
    chosen = settings(kafka, "SASL_SSL", sasl_mechanism=mechanism, sasl_password="wrong")
    error = refusal(chosen)
    assert isinstance(error, AuthenticationError)
    assert mechanism in str(error)
    assert "wrong" not in str(error)


def test_a_certificate_of_an_unknown_authority_is_refused(kafka: SecureKafka) -> None:
    """The error names the setting that says whom to trust."""
    error = refusal(settings(kafka, "SSL", ssl_cafile=str(kafka.tls.other_authority)))
    assert isinstance(error, AuthenticationError)
    assert "ssl_cafile" in str(error)


def test_a_certificate_for_another_host_is_refused(kafka: SecureKafka) -> None:
    """It is for localhost, and 127.0.0.1 is another name."""
    address = f"127.0.0.1:{kafka.ports['SSL']}"
    error = refusal(settings(kafka, "SSL", bootstrap_servers=address))
    assert isinstance(error, AuthenticationError)
    assert "ssl_check_hostname" in str(error)
    enter(settings(kafka, "SSL", bootstrap_servers=address, ssl_check_hostname=False))


def test_a_plaintext_client_at_a_tls_port_is_told(kafka: SecureKafka) -> None:
    """What the port speaks is not what the settings say."""
    chosen = settings(
        kafka, "PLAINTEXT", bootstrap_servers=kafka.address("SSL"), default_api_timeout_ms=1500
    )
    error = refusal(chosen)
    assert isinstance(error, ConfigurationError | BrokerUnreachableError)
    assert "security_protocol" in str(error)


def test_a_tls_client_at_a_plaintext_port_is_told(kafka: SecureKafka) -> None:
    """The reverse."""
    chosen = settings(
        kafka, "SSL", bootstrap_servers=kafka.address("PLAINTEXT"), default_api_timeout_ms=1500
    )
    error = refusal(chosen)
    assert isinstance(error, ConfigurationError | BrokerUnreachableError)
    assert "security_protocol" in str(error)


def test_a_client_that_does_not_log_in_is_told(kafka: SecureKafka) -> None:
    """A SASL listener closes the connection on the first request without a log-in."""
    address = kafka.address("SASL_PLAINTEXT")
    chosen = settings(kafka, "PLAINTEXT", bootstrap_servers=address, default_api_timeout_ms=1500)
    error = refusal(chosen)
    assert isinstance(error, BrokerUnreachableError)
    assert "security_protocol" in str(error)


def test_a_client_that_logs_in_where_nobody_asks_is_told(kafka: SecureKafka) -> None:
    """A listener without SASL answers ILLEGAL_SASL_STATE."""
    address = kafka.address("PLAINTEXT")
    error = refusal(settings(kafka, "SASL_PLAINTEXT", bootstrap_servers=address))
    assert isinstance(error, AuthenticationError)
    assert "security_protocol" in str(error)


def test_the_log_in_is_repeated_before_the_session_ends(
    kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-368: the connection stays the same, and requests go on through the change."""

    async def run() -> None:
        client = Client(settings(kafka, "SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256"))
        await client.start()
        try:
            (node_id,) = client.cluster.nodes
            connections = client.running.network.connections
            connection = connections.current(node_id)
            assert connection is not None
            due_ms = connection.state.reauthenticate_at_ms
            assert due_ms is not None

            async def logged_in_again() -> bool:
                await ask(client)
                return connection.state.reauthenticate_at_ms not in (None, due_ms)

            await eventually(logged_in_again)
            await ask(client)
            assert connections.current(node_id) is connection
        finally:
            await client.close()

    asyncio.run(run())


def test_a_client_certificate_can_be_given(kafka: SecureKafka, tmp_path: Path) -> None:
    """A certificate and its key are loaded; files that do not fit are named."""
    files = {"ssl_certfile": str(kafka.tls.client_certificate)}
    enter(settings(kafka, "SSL", **files, ssl_keyfile=str(kafka.tls.client_key)))
    with pytest.raises(ConfigurationError, match="ssl_certfile"):
        asyncio.run(Client(settings(kafka, "SSL", **files)).start())


def test_a_token_in_a_file_lets_us_in(kafka: SecureKafka, tmp_path: Path) -> None:
    """SEC-100: OAUTHBEARER as Kafka verifies it, by JWKS, issuer and audience."""
    path = tmp_path / "token"
    path.write_text(kafka.tokens.token("svc") + "\n")
    tokens = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_file": str(path)}
    enter(settings(kafka, "SASL_SSL", **tokens))
    path.write_text(kafka.tokens.token("svc", aud="somebody-else"))
    error = refusal(settings(kafka, "SASL_SSL", **tokens))
    assert isinstance(error, AuthenticationError)
    assert "OAUTHBEARER" in str(error)
    assert "eyJ" not in str(error)


def test_one_properties_file_serves_java_and_us(kafka: SecureKafka, tmp_path: Path) -> None:
    """SEC-100: what Kafka's own tool logs in with is read by this client."""
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="{USERNAME}" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={kafka.tls.authority}\n"
    )
    run_java_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", kafka.address("SASL_SSL"), "--list"),
        *("--command-config", str(path)),
    )
    found = client_settings_in(read_properties_file(path))
    enter(ClientSettings.create({"bootstrap_servers": kafka.address("SASL_SSL"), **found}))


def run_java_tool(name: str, *arguments: str) -> None:
    jars = f"{kafka_jars()}/*"
    run(["java", "-XX:TieredStopAtLevel=1", "-cp", jars, name, *arguments])
