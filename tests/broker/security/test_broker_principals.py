"""Who is a broker, and which one, by `barnabas.broker.principals` (SEC-60)."""

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.broker_principals import BrokerPrincipals
from barnabas_broker.security.principal import ANONYMOUS, Principal

LISTENER = "REPLICATION"


def user(name: str) -> Principal:
    return Principal("User", name)


def test_a_broker_speaks_for_itself_alone() -> None:
    principals = BrokerPrincipals.parse("User:CN=broker-{id},O=shop")
    broker = user("CN=broker-7,O=shop")
    assert broker in principals
    assert principals.may_speak_for(broker, 7)
    for other in (0, 1, 70, 77, -7, -1):
        assert not principals.may_speak_for(broker, other)


@pytest.mark.parametrize(
    "name",
    [
        "CN=broker-,O=shop",
        "CN=broker-x,O=shop",
        "CN=broker-07,O=shop",
        "CN=broker-+7,O=shop",
        "CN=broker--7,O=shop",
        "CN=broker- 7,O=shop",
        "CN=broker-7 ,O=shop",
        "CN=broker-1_0,O=shop",
        "CN=broker-\u0667,O=shop",  # a digit of another script
        "CN=broker-\u00b2,O=shop",
        "CN=broker-2147483648,O=shop",
        "CN=broker-99999999999999999999,O=shop",
        "CN=broker-7,O=shop,O=shop",
        "CN=broker-7,O=Shop",
        "cn=broker-7,O=shop",
        "CN=evil,CN=broker-7,O=shop",
        "CN=broker-7,OU=evil,O=shop",
        "CN=broker-O=shop",
        "",
    ],
)
def test_names_that_only_look_like_a_broker_s_are_nobody_s(name: str) -> None:
    principals = BrokerPrincipals.parse("User:CN=broker-{id},O=shop")
    assert user(name) not in principals
    assert not principals.may_speak_for(user(name), 7)


def test_the_type_counts() -> None:
    principals = BrokerPrincipals.parse("User:broker-{id}")
    assert Principal("Group", "broker-7") not in principals


def test_the_largest_node_id_is_one() -> None:
    principals = BrokerPrincipals.parse("User:broker-{id}")
    assert principals.may_speak_for(user("broker-2147483647"), 2**31 - 1)
    assert principals.may_speak_for(user("broker-0"), 0)


def test_names_have_commas_and_colons_so_semicolons_part_them() -> None:
    principals = BrokerPrincipals.parse(
        " User:CN=a-{id},O=x ; User:system:serviceaccount:ns:b-{id};; User:kafka "
    )
    assert principals.may_speak_for(user("CN=a-1,O=x"), 1)
    assert principals.may_speak_for(user("system:serviceaccount:ns:b-2"), 2)
    assert principals.shared == {user("kafka")}


def test_a_shared_login_speaks_for_every_broker() -> None:
    principals = BrokerPrincipals.parse("User:kafka")
    assert all(principals.may_speak_for(user("kafka"), node_id) for node_id in (0, 1, 99))
    assert user("kafka2") not in principals


@pytest.mark.parametrize(
    "text",
    [
        "kafka",
        "User:",
        ":kafka",
        "User:a{id}b{id}",
        "User:broker-1{id}",
        "User:{id}0",
    ],
)
def test_what_is_no_list_of_principals_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^barnabas\.broker\.principals: "):
        BrokerPrincipals.parse(text)


def test_without_security_the_listener_is_enough() -> None:
    """Decision 0014."""
    identity = BrokerIdentity.of(LISTENER, "", is_secured=False)
    assert identity.is_open
    assert identity.is_broker(LISTENER, ANONYMOUS)
    assert identity.may_speak_for(LISTENER, ANONYMOUS, 3)
    assert not identity.is_broker("PLAINTEXT", ANONYMOUS)


def test_with_security_and_no_principals_nobody_is_a_broker() -> None:
    identity = BrokerIdentity.of(LISTENER, "", is_secured=True)
    assert not identity.is_open
    assert not identity.is_broker(LISTENER, ANONYMOUS)
    assert not identity.is_broker(LISTENER, user("broker-1"))


@pytest.mark.parametrize("is_secured", [False, True])
def test_a_broker_needs_both_listener_and_principal(is_secured: bool) -> None:
    identity = BrokerIdentity.of(LISTENER, "User:broker-{id}", is_secured=is_secured)
    assert identity.is_broker(LISTENER, user("broker-1"))
    assert not identity.is_broker("PLAINTEXT", user("broker-1"))
    assert not identity.is_broker(LISTENER, user("alice"))
    assert not identity.is_broker(LISTENER, ANONYMOUS)
    assert identity.may_speak_for(LISTENER, user("broker-1"), 1)
    assert not identity.may_speak_for(LISTENER, user("broker-1"), 2)
    assert not identity.may_speak_for("PLAINTEXT", user("broker-1"), 1)
