"""Properties files of Kafka's tools as settings of the client."""

import pytest

from barnabas_broker.config.parse import parse_properties
from barnabas_cli.command_config import parsed, settings_from
from barnabas_cli.failures import CommandError
from barnabas_client.config.admin_settings import AdminSettings

PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password="s3cr\\"et;";'
)


def test_a_file_as_kafka_s_tools_take_it() -> None:
    """Issue 4: --command-config with security.protocol and a JAAS line."""
    text = (
        "bootstrap.servers=a:1,b:2\nsecurity.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=SCRAM-SHA-512\nrequest.timeout.ms=5000\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        "  username='bob' password=plain ;\n"
    )
    settings = parsed(text, parse_properties)
    assert settings == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "request_timeout_ms": "5000",
        "sasl_username": "bob",
        "sasl_password": "plain",
    }
    assert AdminSettings.create(settings).request_timeout_ms == 5000


def test_plain_is_known_by_its_module_and_quotes_are_read() -> None:
    assert settings_from({"sasl.jaas.config": PLAIN}) == {
        "sasl_username": "alice",
        "sasl_password": 's3cr"et;',
        "sasl_mechanism": "PLAIN",
    }


def test_our_own_names_work_too() -> None:
    assert settings_from({"sasl_username": "a", "ssl.truststore.location": "ca.pem"}) == {
        "sasl_username": "a",
        "ssl_cafile": "ca.pem",
    }


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"sasl.jaas.config": "com.sun.Krb5LoginModule required;"}, "names 'Krb5LoginModule'"),
        ({"sasl.jaas.config": "x.PlainLoginModule required;"}, "no username and no password"),
        ({"ssl.truststore.type": "JKS"}, "convert the store to PEM"),
    ],
)
def test_what_cannot_be_used_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        settings_from(properties)
