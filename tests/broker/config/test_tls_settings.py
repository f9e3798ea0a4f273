"""Settings of TLS: whole, of one listener, and nothing that has no effect."""

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.dynamic import DynamicConfig, validate_broker_config
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.tls_settings import ListenerTlsSettings, tls_settings

FILES = {"barnabas.ssl.certificate.file": "c", "barnabas.ssl.key.file": "k"}
STORE = {"ssl.keystore.location": "s", "ssl.keystore.type": "PEM"}
ANCHORS = {"ssl.truststore.location": "t", "ssl.truststore.type": "PEM"}


def of(
    properties: dict[str, str], protocol: str = "SSL", *, is_of_brokers: bool = False
) -> ListenerTlsSettings:
    return tls_settings("OUT", protocol, properties, is_of_brokers=is_of_brokers)


def test_a_listeners_own_value_comes_before_that_of_all() -> None:
    """SEC-1: `listener.name.<lower case>.<key>`."""
    settings = of(
        {
            **STORE,
            **ANCHORS,
            "ssl.client.auth": "requested",
            "listener.name.out.ssl.client.auth": "required",
            "listener.name.out.ssl.keystore.location": "own",
            "listener.name.other.ssl.keystore.location": "no",
        }
    )
    assert settings.keystore_file == "own"
    assert settings.truststore_file == "t"
    assert settings.client_auth == "required"


def test_beside_sasl_certificates_are_asked_for_only_with_the_prefix() -> None:
    """SEC-3, KIP-684: the principal is SASL's there."""
    common = {**FILES, **ANCHORS, "ssl.client.auth": "required"}
    assert of(common, "SSL").client_auth == "required"
    assert of(common, "SASL_SSL").client_auth == "none"
    own = {**common, "listener.name.out.ssl.client.auth": "required"}
    assert of(own, "SASL_SSL").client_auth == "required"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, r"TLS needs a key.*listener\.name\.out\.barnabas\.ssl\.certificate\.file"),
        ({**FILES, **STORE}, "both say what the key is"),
        ({"ssl.keystore.key": "k", "ssl.keystore.type": "PEM"}, "only ssl.keystore.key is given"),
        ({"barnabas.ssl.key.file": "k"}, "only barnabas.ssl.key.file is given"),
        ({"ssl.keystore.location": "s"}, "ssl.keystore.type is JKS.*keytool.*type=PEM"),
        (
            {**STORE, "listener.name.out.ssl.keystore.type": "PKCS12"},
            r"listener\.name\.out\.ssl\.keystore\.type is PKCS12",
        ),
        ({**STORE, "ssl.truststore.location": "t"}, "ssl.truststore.type is JKS"),
        ({**FILES, "ssl.truststore.location": "t", "ssl.truststore.type": "JKS"}, "is JKS"),
        ({**FILES, **ANCHORS, "ssl.truststore.certificates": "x"}, "both say whom to trust"),
        ({**STORE, "ssl.keystore.password": "p"}, "PEM has no password for a whole store"),
        ({**FILES, "ssl.client.auth": "required"}, "ssl.client.auth is required, so"),
        ({**FILES, "ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not one of"),
        ({**FILES, "ssl.enabled.protocols": ""}, "at least one protocol"),
        ({**FILES, "ssl.client.auth": "maybe"}, "none, requested, required"),
    ],
)
def test_what_is_half_or_only_javas_is_refused(properties: dict[str, str], reason: str) -> None:
    """SEC-2, SEC-3: with the key named and what to do."""
    with pytest.raises(ConfigError, match=reason):
        of(properties)


def test_anchors_beside_own_files_need_no_type() -> None:
    """SEC-2: Kafka's default of JKS is about its own stores."""
    settings = of({**FILES, "ssl.truststore.location": "t"}, is_of_brokers=True)
    assert (settings.certificate_file, settings.key_file) == ("c", "k")
    with pytest.raises(ConfigError, match="brokers verify one another"):
        of(FILES, is_of_brokers=True)


def test_secrets_are_not_in_what_is_printed() -> None:
    """SEC-114."""
    settings = of(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": "canary-key",
            "ssl.keystore.certificate.chain": "x",
            "ssl.key.password": "canary-password",
        }
    )
    assert "canary" not in repr(settings)


def parse(properties: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.parse({"node.id": "0", **properties})


def test_each_listener_has_what_its_protocol_needs() -> None:
    """SEC-1: by `listener.security.protocol.map`; a plain one has nothing."""
    config = parse(
        {
            "listeners": "SSL://:1,PLAIN://:2,REPLICATION://:3",
            "listener.security.protocol.map": "SSL:SSL,PLAIN:PLAINTEXT,REPLICATION:SSL",
            **FILES,
            **ANCHORS,
            "listener.name.replication.ssl.client.auth": "required",
        }
    )
    assert {name: tls.client_auth for name, tls in config.tls.items()} == {
        "SSL": "none",
        "REPLICATION": "required",
    }


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"security.inter.broker.protocol": "SSL"}, "SSL"),
        ({"listener.security.protocol.map": "OUT:PLAINTEXT,REPLICATION:SSL"}, "SSL"),
        ({}, "PLAINTEXT"),
    ],
)
def test_the_brokers_own_listener_has_the_protocol_that_is_set(
    properties: dict[str, str], expected: str
) -> None:
    """SEC-1: `security.inter.broker.protocol` was ignored, and the brokers then spoke plainly."""
    protocols = {"listener.security.protocol.map": "OUT:PLAINTEXT"}
    config = parse({"listeners": "OUT://:9092", **protocols, **FILES, **ANCHORS, **properties})
    (own,) = [one for one in config.listeners if one.name == "REPLICATION"]
    assert own.security_protocol == expected


def test_the_brokers_listener_is_named_once() -> None:
    """SEC-1: as in Kafka."""
    listeners = {"listeners": "PLAINTEXT://:1,SSL://:2", **FILES, **ANCHORS}
    config = parse({**listeners, "security.inter.broker.protocol": "SSL"})
    assert config.inter_broker_listener_name == "SSL"
    with pytest.raises(ConfigError, match="both say which listener"):
        parse(
            {
                **listeners,
                "security.inter.broker.protocol": "SSL",
                "inter.broker.listener.name": "SSL",
            }
        )


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("listener.name.nobody.ssl.client.auth", "none", "no listener is called NOBODY"),
        ("listener.name.plaintext.ssl.client.aut", "none", "ssl.client.auth"),
        ("listener.name.plaintext.log.dirs", "x", "holds for all listeners alike"),
        ("listener.name.plaintext.x.max.connections", "3", "max.connections"),
        ("listener.name.plaintext.plain.ssl.client.auth", "required", "ssl.client.auth"),
        ("listener.name.PLAINTEXT.max.connections", "3", "write listener.name.plaintext.max.conn"),
        ("listener.name.plaintext.ssl.client.auth", "maybe", "none, requested, required"),
        ("ssl.engine.factory.class", "my.Factory", "only the default is accepted"),
        ("ssl.provider", "BC", "only the default is accepted"),
        ("ssl.keystore.password", "x", "only the default is accepted"),
        ("principal.builder.class", "my.Builder", "only the default is accepted"),
        ("security.providers", "my.Provider", "only the default is accepted"),
    ],
)
def test_a_setting_without_effect_is_refused_at_the_start(
    key: str, value: str, reason: str
) -> None:
    """SEC-1, BOOT-10: whoever set it believes that it holds."""
    with pytest.raises(ConfigError, match=reason):
        parse({"listeners": "PLAINTEXT://:9092", key: value})


def test_tls_changes_while_the_broker_runs_with_the_prefix_and_for_one_broker() -> None:
    """SEC-5, CFG-7: KIP-226; addresses and classes of SASL do not (CVE-2025-27817)."""
    location = "listener.name.ssl.ssl.keystore.location"
    validate_broker_config({location: "x"}, per_broker=True, values={})
    for key, per_broker, reason in (
        (location, False, "broker id must be specified"),
        ("ssl.keystore.location", True, "only per-listener using the listener prefix"),
        ("barnabas.ssl.key.file", True, "only per-listener using the listener prefix"),
        ("listener.name.ssl.ssl.principal.mapping.rules", True, "Cannot update these configs"),
        ("listener.name.SSL.ssl.keystore.location", True, "write listener.name.ssl.ssl.keystore"),
        ("listener.name.SSL.max.connections", False, "write listener.name.ssl.max.connections"),
        ("listener.name.ssl.sasl.jaas.config", True, "Cannot update these configs"),
        ("listener.name.ssl.oauthbearer.sasl.jaas.config", True, "Cannot update these configs"),
    ):
        with pytest.raises(ConfigError, match=reason):
            validate_broker_config({key: "x"}, per_broker=per_broker, values={})


def test_what_is_set_for_a_listener_is_described_without_its_secrets() -> None:
    """SEC-5, SEC-114: as DescribeConfigs tells everything else."""
    password = "listener.name.ssl.ssl.key.password"
    location = "listener.name.ssl.ssl.keystore.location"
    config = DynamicConfig({password: "canary", location: "old", "ssl.keystore.location": "all"})
    config.update({}, {location: "new", "listener.name.ssl.sasl.jaas.config": "x"})
    entries = {entry.key: entry for entry in config.describe_broker()}
    assert entries[location].value == "new"
    assert [item.value for item in entries[location].synonyms] == ["new", "old", "all"]
    assert entries[password].value is None
    assert entries[password].is_sensitive
    assert "canary" not in repr(entries)
    assert "listener.name.ssl.sasl.jaas.config" not in config.values


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("NOWHERE", "NOWHERE is not one of listeners"),
        ("OPEN", "OPEN is PLAINTEXT"),
        ("REPLICATION", "REPLICATION is a listener of brokers"),
        ("OUT,OTHER", "OTHER is a listener of brokers"),
    ],
)
def test_only_clients_with_tls_share_their_port_with_others(named: str, reason: str) -> None:
    """SEC-89: brokers would take anybody's word for who they are."""
    properties = {
        "listeners": "OUT://:9092,OPEN://:9093,REPLICATION://:9094,OTHER://:9095",
        "listener.security.protocol.map": "OUT:SSL,OPEN:PLAINTEXT,REPLICATION:SSL,OTHER:SSL",
        "barnabas.other.broker.listeners": "OTHER",
        **FILES,
        **ANCHORS,
    }
    key = "barnabas.port.unification.listeners"
    assert parse({**properties, key: "out"}).barnabas_port_unification_listeners == ("OUT",)
    with pytest.raises(ConfigError, match=f"{key}: {reason}"):
        parse({**properties, key: named})
