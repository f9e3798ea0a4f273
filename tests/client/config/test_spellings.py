"""What Java's client and librdkafka call the settings of security."""

from pathlib import Path
from typing import Any

import pytest

from barnabas_client.config import AdminSettings, ClientSettings
from barnabas_client.config.properties_file import client_settings_in, read_properties_file
from barnabas_client.config.spellings import SPELLINGS, respelled
from barnabas_client.errors import ConfigurationError

SERVERS = {"bootstrap.servers": "a:1"}
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password="s3cr\\"et;";'
)
SCRAM = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    "username='bob' password=plain ;"
)
TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


def in_file(directory: Path, text: str) -> dict[str, Any]:
    path = directory / "client.properties"
    path.write_text(text, encoding="utf-8")
    return client_settings_in(read_properties_file(path))


def test_a_file_as_kafka_s_tools_take_it(tmp_path: Path) -> None:
    """Issue 4: --command-config with security.protocol and a JAAS line over two lines."""
    text = (
        "bootstrap.servers=a:1,b:2\nsecurity.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=SCRAM-SHA-512\nrequest.timeout.ms=5000\n"
        "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        "  username='bob' password=plain ;\n"
    )
    settings = in_file(tmp_path, text)
    assert settings == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "request_timeout_ms": "5000",
        "sasl_username": "bob",
        "sasl_password": "plain",
    }
    assert AdminSettings.create(settings).request_timeout_ms == 5000


def test_java_s_pem_stores_as_files_and_as_text(tmp_path: Path) -> None:
    """SEC-100, KIP-651: stores of type PEM by their place, or as text over several lines."""
    places = in_file(
        tmp_path,
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/etc/ca.crt\n"
        "ssl.keystore.type=PEM\nssl.keystore.location=/etc/user.pem\nssl.key.password=k\n"
        "ssl.endpoint.identification.algorithm=https\n",
    )
    assert places == {
        "security_protocol": "SSL",
        "ssl_cafile": "/etc/ca.crt",
        "ssl_certfile": "/etc/user.pem",
        "ssl_password": "k",
        "ssl_check_hostname": True,
    }
    texts = in_file(
        tmp_path,
        "ssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\n\\\nMII=\\n\\\n"
        "-----END CERTIFICATE-----\nssl.keystore.certificate.chain=c\nssl.keystore.key=k\n",
    )
    assert texts == {
        "ssl_ca_pem": "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----",
        "ssl_certificate_pem": "c",
        "ssl_key_pem": "k",
    }


def test_librdkafka_s_names_mean_the_same() -> None:
    """SEC-100: its configuration is pasted into a program as it stands."""
    settings = ClientSettings.create(
        {
            "metadata.broker.list": "a:1",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "p",
            "ssl.ca.location": "ca.pem",
            "ssl.certificate.location": "c.pem",
            "ssl.key.location": "k.pem",
            "ssl.key.password": "kp",
            "ssl.endpoint.identification.algorithm": "none",
            "enable.ssl.certificate.verification": "true",
        }
    )
    assert settings.security_protocol == "SASL_SSL"
    assert settings.sasl_mechanism == "SCRAM-SHA-512"
    assert (settings.ssl_cafile, settings.ssl_certfile) == ("ca.pem", "c.pem")
    assert (settings.ssl_keyfile, settings.ssl_password) == ("k.pem", "kp")
    assert settings.ssl_check_hostname is False


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (
            {"sasl.jaas.config": PLAIN},
            {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": 's3cr"et;'},
        ),
        (
            {"sasl.jaas.config": SCRAM, "sasl.mechanism": "SCRAM-SHA-256"},
            {
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_username": "bob",
                "sasl_password": "plain",
            },
        ),
        (
            {
                "sasl.jaas.config": TOKENS,
                "sasl.oauthbearer.token.endpoint.url": "file:///var/run/secrets/a%20b/token",
                "sasl.login.callback.handler.class": "org.apache.kafka...CallbackHandler",
            },
            {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_file": "/var/run/secrets/a b/token",
            },
        ),
        (
            {"sasl_username": "a", "ssl.truststore.location": "ca.pem"},
            {"sasl_username": "a", "ssl_cafile": "ca.pem"},
        ),
        ({"ssl.cafile": "x", "ssl.ca.location": "x"}, {"ssl_cafile": "x"}),
        ({"ssl.ca.location": "probe"}, {}),
    ],
)
def test_log_ins_and_stores_are_translated(given: dict[str, str], found: dict[str, str]) -> None:
    """SEC-100, SEC-101: what each means; the same value twice is no contradiction."""
    assert respelled(given) == found


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"sasl.jaas.config": "com.sun.Krb5LoginModule required;"}, "names 'Krb5LoginModule'"),
        ({"sasl.jaas.config": "x.PlainLoginModule required;"}, "no username and no password"),
        ({"sasl.jaas.config": SCRAM}, "sasl.mechanism is missing.*SCRAM-SHA-256 and SCRAM"),
        ({"sasl.jaas.config": PLAIN, "sasl.mechanism": "SCRAM-SHA-512"}, "is not for sasl.mech"),
        ({"ssl.truststore.type": "JKS"}, "only PEM can be read; convert"),
        ({"ssl.keystore.location": "/x/client.p12"}, "openssl pkcs12"),
        ({"ssl.truststore.password": "canary"}, "PEM files have none"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https"),
        ({"enable.ssl.certificate.verification": "false"}, "always verified"),
        ({"sasl.oauthbearer.method": "oidc"}, "sasl_oauthbearer_token_file"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://idp/token"}, "begin with 'file:'"),
        ({"sasl.jaas.config": TOKENS[:-1] + ' unsecuredLoginStringClaim_sub="a";'}, "nobody signs"),
        ({"ssl.cafile": "x", "ssl.ca.location": "y"}, "ssl_cafile is given twice"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_way_out(
    properties: dict[str, str], words: str
) -> None:
    """Nothing that protects is dropped in silence, and no password is repeated."""
    with pytest.raises(ConfigurationError, match=words) as raised:
        respelled(properties)
    assert "\n" not in str(raised.value)
    for secret in ("canary", "plain ;", "s3cr"):
        assert secret not in str(raised.value)


def test_spellings_are_no_names_of_rows() -> None:
    """Else a row could not be set by its own name."""
    rows = set(AdminSettings.__dataclass_fields__)
    assert not SPELLINGS & rows


@pytest.mark.parametrize("content", [b"\xff\xfe=x", b"a=\\uZZZZ"])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, content: bytes) -> None:
    """The file and the reason, on one line."""
    path = tmp_path / "client.properties"
    with pytest.raises(ConfigurationError, match=r"client\.properties cannot be read: No such"):
        read_properties_file(path)
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"client\.properties is no properties file"):
        read_properties_file(path)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sasl_oauthbearer_token_file": "t"}, ("security_protocol=PLAINTEXT", "SASL_SSL")),
        ({"ssl_ca_pem": "t"}, ("ssl_ca_pem", "does not encrypt")),
        ({"ssl_key_pem": "t", "security_protocol": "SSL"}, ("ssl_certificate_pem",)),
        (
            {"ssl_cafile": "a", "ssl_ca_pem": "b", "security_protocol": "SSL"},
            ("both given",),
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "oauthbearer"},
            ("sasl_oauthbearer_token_file or sasl_oauthbearer_token_callback",),
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_oauthbearer_token_file": "t",
            },
            ("shows no token", "OAUTHBEARER"),
        ),
        ({"security_protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, ("TLSv1.2 or TLSv1.3",)),
    ],
)
def test_settings_that_contradict_are_refused(
    values: dict[str, object], words: tuple[str, ...]
) -> None:
    """SEC-100: never a plain connection where something says that it is to be a safe one."""
    with pytest.raises(ConfigurationError) as raised:
        ClientSettings.create({**SERVERS, **values})
    assert all(word in str(raised.value) for word in words), str(raised.value)
