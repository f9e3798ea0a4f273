"""Hosts of ACLs: which ranges there are, and that no spelling of an address leaves one behind."""

import pytest

from barnabas_broker.security.acl.hosts import HostRange, address_of, parse_cidr, range_of


def has(host: str, client: str) -> bool:
    found = range_of(host)
    assert isinstance(found, HostRange)
    return found.has(address_of(client))


@pytest.mark.parametrize(
    ("host", "inside", "outside"),
    [
        ("10.0.0.0/8", ("10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"), ("11.0.0.0", "::1")),
        ("10.0.0.5/8", ("10.0.0.0",), ("9.255.255.255",)),
        ("10.0.0.1/32", ("10.0.0.1",), ("10.0.0.0", "10.0.0.2")),
        ("10.0.0.2/31", ("10.0.0.2", "10.0.0.3"), ("10.0.0.1", "10.0.0.4")),
        ("0.0.0.0/0", ("0.0.0.0", "255.255.255.255"), ("::", "", "localhost")),
        ("::/0", ("::", "::1", "ffff::"), ("10.0.0.1", "::ffff:10.0.0.1")),
        ("2001:DB8::/32", ("2001:db8::5", "2001:0db8:0:0::1"), ("2001:db9::",)),
        ("::1/128", ("::1", "0:0:0:0:0:0:0:1"), ("::2",)),
        ("::1", ("0:0:0:0:0:0:0:1", "::1"), ("::2", "10.0.0.1")),
        ("10.0.0.1", ("10.0.0.1", "::ffff:10.0.0.1", "::ffff:a00:1"), ("10.0.0.2", "::a00:1")),
        ("::ffff:10.0.0.1", ("10.0.0.1",), ("::1",)),
    ],
)
def test_a_range_has_every_spelling_of_its_addresses(
    host: str, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    """SEC-41: IPv4, IPv6, and IPv4 that came through an IPv6 socket."""
    assert all(has(host, client) for client in inside)
    assert not any(has(host, client) for client in outside)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("256.0.0.0/8", "Value [256] not in range [0,255]"),
        ("10.0.0.0/", "Could not parse [10.0.0.0/]"),
        ("10.0.0/8", "Could not parse [10.0.0/8]"),
        ("10.0.0.0/-1", "Could not parse [10.0.0.0/-1]"),
        ("10.0.0.0/8/9", "Could not parse [10.0.0.0/8/9]"),
        (" 10.0.0.0/8", "Could not parse [ 10.0.0.0/8]"),
        ("10.0.0.0/1\u0663", "Could not parse [10.0.0.0/1\u0663]"),
        ("\u0661\u0660.0.0.0/8", "Could not parse [\u0661\u0660.0.0.0/8]"),
        ("010.0.0.1/8", "Could not parse [010.0.0.1/8]"),
        ("/", "Could not parse [/]"),
        ("::1/129", "Could not parse [::1/129] - prefix length must be between 0 and 128"),
        ("::1/-1", "Could not parse [::1/-1] - prefix length must be between 0 and 128"),
        ("::1/" + "9" * 5000, "prefix length must be between 0 and 128"),
        ("::1/", "Could not parse [::1/] - invalid prefix length"),
        ("::1/64/3", "Could not parse [::1/64/3] - invalid prefix length"),
        ("::1/+8", "invalid prefix length"),
        ("::ffff:0:0/96", "Could not parse [::ffff:0:0] - not an IPv6 address"),
        ("1:2/64", "Could not parse [1:2]"),
        ("fe80::1%eth0/64", "Could not parse [fe80::1%eth0]"),
        ("[::1]/128", "Could not parse [[::1]]"),
    ],
)
def test_what_is_no_range_is_refused_in_kafka_s_words(text: str, words: str) -> None:
    """SEC-41, KIP-1276: where Apache Kafka takes more than one meaning, we take none."""
    with pytest.raises(ValueError) as raised:
        parse_cidr(text)
    assert words in str(raised.value)
    assert range_of(text) == text, "and stands for nobody"
