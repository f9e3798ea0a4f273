"""Settings: what is given becomes checked values, or an error that says what to do."""

import dataclasses

import pytest

from barnabas_client.config import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
)
from barnabas_client.config.client_settings import parse_address
from barnabas_client.config.settings import settings_of
from barnabas_client.errors import ConfigurationError

SERVERS = {"bootstrap_servers": "broker:9092"}
ROLES = (ClientSettings, ProducerSettings, ConsumerSettings, AdminSettings)


def refusal(kind: type[ClientSettings], **values: object) -> str:
    with pytest.raises(ConfigurationError) as raised:
        kind.create({**SERVERS, **values})
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("kind", ROLES)
def test_every_row_has_a_reason_and_a_valid_default(kind: type[ClientSettings]) -> None:
    """style.md section 4: one row per setting; CLI: a default that is refused would be a trap."""
    settings = kind.create(SERVERS)
    for name, known in settings_of(kind).items():
        assert known.why.endswith(".")
        if not known.is_required:
            assert getattr(settings, name) == known.accept(known.default)


def test_dots_and_text_are_understood() -> None:
    """A properties file for the Java client holds names with dots, and everything is text."""
    settings = ConsumerSettings.create(
        {
            "bootstrap.servers": "a:1, b:2",
            "fetch.min.bytes": " 17 ",
            "enable.auto.commit": "False",
            "isolation.level": "READ_COMMITTED",
            "partition.assignment.strategy": "range,sticky",
            "client.rack": "east",
        }
    )
    assert settings.addresses == (("a", 1), ("b", 2))
    assert settings.fetch_min_bytes == 17
    assert settings.enable_auto_commit is False
    assert settings.isolation_level == "read_committed"
    assert settings.partition_assignment_strategy == ("range", "sticky")
    assert settings.client_rack == "east"


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    """CLI-8: unknown options are reported."""
    assert "did you mean linger_ms?" in refusal(ProducerSettings, linger_sm=5)
    assert "did you mean fetch_min_bytes?" in refusal(ConsumerSettings, **{"fetch.min.byte": 5})
    assert "client-configuration.md" in refusal(ClientSettings, zzz=5)
    assert "unknown setting linger_ms" in refusal(ConsumerSettings, linger_ms=5)


def test_a_setting_that_is_given_twice_is_refused() -> None:
    """In both spellings, which may differ in value."""
    both = {"retry_backoff_ms": 1, "retry.backoff.ms": 2}
    assert "retry_backoff_ms is given twice" in refusal(ClientSettings, **both)


def test_bootstrap_servers_are_required() -> None:
    """There is no default: a forgotten address must not lead to some broker on this machine."""
    with pytest.raises(ConfigurationError, match="bootstrap_servers is missing"):
        ClientSettings.create({})


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"request_timeout_ms": 0}, "the least is 1"),
        ({"request_timeout_ms": "soon"}, "it must be a whole number"),
        ({"request_timeout_ms": True}, "it must be a whole number"),
        ({"request_timeout_ms": None}, "it must be a whole number"),
        ({"request_timeout_ms": 1 << 40}, "the most is 2147483647"),
        ({"allow_auto_create_topics": "maybe"}, "it must be true or false"),
        ({"security_protocol": "TLS"}, "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"bootstrap_servers": ""}, "at least one broker"),
        ({"bootstrap_servers": ["a"]}, "a host and a port"),
        ({"bootstrap_servers": "a:http"}, "between 1 and 65535"),
        ({"bootstrap_servers": "a:70000"}, "between 1 and 65535"),
        ({"bootstrap_servers": "::1:9092"}, "in brackets"),
        ({"bootstrap_servers": [9092]}, "is not text"),
        ({"client_id": 5}, "it must be text"),
    ],
)
def test_wrong_values_are_refused_with_what_is_possible(
    values: dict[str, object], reason: str
) -> None:
    """The message names the setting, what was given and what to give."""
    message = refusal(ClientSettings, **values)
    assert message.startswith(next(iter(values)))
    assert reason in message


def test_addresses_are_read() -> None:
    """IPv6 in brackets; what other tools put in front is skipped."""
    assert parse_address("[::1]:9092") == ("::1", 9092)
    assert parse_address("SASL_SSL://broker.example:9093") == ("broker.example", 9093)
    twice = ClientSettings(bootstrap_servers="a:1,a:1,b:1")
    assert twice.addresses == (("a", 1), ("b", 1))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"acks": 1}, ("acks=1", "all", "enable_idempotence=False")),
        ({"acks": "0"}, ("acks=0", "all", "enable_idempotence=False")),
        ({"retries": 0}, ("retries=0",)),
        ({"max_in_flight_requests_per_connection": 6}, ("at most 5",)),
        ({"enable_idempotence": False, "transactional_id": "t"}, ("transactional_id",)),
        ({"transactional_id": ""}, ("transactional_id is empty",)),
        ({"delivery_timeout_ms": 1000}, ("delivery_timeout_ms=1000", "request_timeout_ms")),
        ({"acks": 2}, ("acks=2", "all")),
        ({"compression_type": "brotli"}, ("none, gzip, snappy, lz4, zstd",)),
    ],
)
def test_producer_settings_that_contradict_are_refused(
    values: dict[str, object], words: tuple[str, ...]
) -> None:
    """PRD-9: idempotence needs acks=all, retries and at most five in flight."""
    message = refusal(ProducerSettings, **values)
    assert all(word in message for word in words)


def test_acks_become_numbers() -> None:
    """PRD-7: `all` is -1 on the wire."""
    for given, number in (("all", -1), (-1, -1), ("-1", -1)):
        assert ProducerSettings.create({**SERVERS, "acks": given}).required_acks == number
    loose = {**SERVERS, "acks": "1", "enable_idempotence": False}
    assert ProducerSettings.create(loose).required_acks == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"heartbeat_interval_ms": 45000}, ("heartbeat_interval_ms", "session_timeout_ms=45000")),
        ({"fetch_max_wait_ms": 30000}, ("fetch_max_wait_ms", "request_timeout_ms=30000")),
        ({"group_instance_id": "one"}, ("group_id",)),
        ({"group_id": ""}, ("group_id is empty",)),
        ({"group_id": "g", "group_instance_id": ""}, ("group_instance_id is empty",)),
        ({"group_protocol": "classic", "group_remote_assignor": "uniform"}, ("classic",)),
        ({"auto_offset_reset": "newest"}, ("latest, earliest, none", "by_duration")),
        ({"auto_offset_reset": "by_duration:1h"}, ("PT1H",)),
        ({"partition_assignment_strategy": ""}, ("cooperative-sticky",)),
    ],
)
def test_consumer_settings_that_contradict_are_refused(
    values: dict[str, object], words: tuple[str, ...]
) -> None:
    """CON-10 and its like."""
    message = refusal(ConsumerSettings, **values)
    assert all(word in message for word in words)


def test_a_reset_by_duration_is_read() -> None:
    """KIP-1106."""
    settings = ConsumerSettings.create({**SERVERS, "auto_offset_reset": "by_duration:PT2H"})
    assert settings.offset_reset_duration_ms == 7_200_000
    assert ConsumerSettings.create(SERVERS).offset_reset_duration_ms is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"security_protocol": "SASL_SSL"}, ("sasl_username is missing",)),
        (
            {"security_protocol": "SASL_SSL", "sasl_username": "u"},
            ("sasl_password is missing",),
        ),
        ({"sasl_username": "u"}, ("security_protocol=PLAINTEXT", "SASL_SSL")),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            ("GSSAPI", "SCRAM-SHA-512", "sasl_exchange"),
        ),
        ({"ssl_cafile": "x"}, ("ssl_cafile", "SSL")),
        ({"security_protocol": "SSL", "ssl_keyfile": "x"}, ("ssl_certfile",)),
    ],
)
def test_security_settings_that_contradict_are_refused(
    values: dict[str, object], words: tuple[str, ...]
) -> None:
    """Half a log-in is worse than an error."""
    message = refusal(ClientSettings, **values)
    assert all(word in message for word in words)


def test_passwords_are_never_shown() -> None:
    """Neither in errors nor in what a settings object prints."""
    login = {"security_protocol": "sasl_ssl", "sasl_username": "u", "sasl_password": "s3cret"}
    settings = ClientSettings.create({**SERVERS, **login, "sasl_mechanism": "scram-sha-256"})
    assert settings.sasl_mechanism == "SCRAM-SHA-256"
    assert settings.uses_tls
    assert settings.uses_sasl
    assert "s3cret" not in repr(settings)
    assert "[hidden]" in refusal(ClientSettings, **{**login, "sasl_password": 5})


def test_a_first_wait_above_the_longest_is_kept_constant() -> None:
    """As in Java: who raises only the first of the two means it."""
    settings = ClientSettings.create({**SERVERS, "retry_backoff_ms": 5000})
    assert settings.retry_backoff_max_ms == 5000


def test_a_long_request_timeout_makes_the_delivery_timeout_longer() -> None:
    """As in Java: only who gives both is told that they contradict."""
    settings = ProducerSettings.create({**SERVERS, "request_timeout_ms": 200_000})
    assert settings.delivery_timeout_ms == 200_005


def test_settings_cannot_be_changed() -> None:
    """Parsed once into frozen objects."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        ClientSettings.create(SERVERS).client_id = "x"  # type: ignore[misc]
