"""How many connections there may be."""

import pytest

from barnabas_broker.network.connection_limits import ConnectionLimits, describe_peer


def test_limits_per_address_with_overrides_and_in_all() -> None:
    """NET-4."""
    limits = ConnectionLimits(4, 1, {"10.0.0.2": 2, "10.0.0.3": 0, "::FFFF:10.0.0.4": 2})
    assert limits.enter("10.0.0.1") is None
    assert limits.enter("10.0.0.1") == "connections-per-ip"
    assert limits.enter("10.0.0.2") is None
    assert limits.enter("10.0.0.2") is None
    assert limits.enter("10.0.0.2") == "connections-per-ip"
    assert limits.enter("10.0.0.3") == "connections-per-ip"
    assert limits.enter("10.0.0.4") is None
    assert limits.enter("10.0.0.5") == "connections"
    limits.leave("10.0.0.1")
    assert limits.from_host("10.0.0.1") == 0
    assert limits.enter("10.0.0.5") is None
    limits.update(10, 3, {})
    assert limits.enter("10.0.0.5") is None
    assert limits.total == 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (("127.0.0.1", 5555), ("127.0.0.1", "127.0.0.1:5555")),
        (("::ffff:10.1.2.3", 1, 0, 0), ("10.1.2.3", "10.1.2.3:1")),
        (("fe80::1%eth0", 2, 0, 3), ("fe80::1", "[fe80::1]:2")),
        (None, ("", "unknown")),
        ("/run/socket", ("", "/run/socket")),
    ],
)
def test_peers_are_described_in_one_spelling(name: object, expected: tuple[str, str]) -> None:
    """An address through an IPv6 socket is the same address for the limits."""
    assert describe_peer(name) == expected
