"""Who is behind an address, for limits of those who have not logged in."""

import pytest

from barnabas_broker.network.half_open import HalfOpenConnections
from barnabas_broker.network.host_counts import owner_of


@pytest.mark.parametrize(
    ("host", "owner"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("/2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("2001:db8:1:3::/64", "2001:db8:1:3::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_addresses_of_one_network_of_ipv6_have_one_owner(host: str, owner: str) -> None:
    """SEC-8: else one machine has as many addresses as it likes."""
    assert owner_of(host) == owner


def test_half_open_connections_are_counted_by_owner() -> None:
    """SEC-8: and given back by any address of it."""
    half_open = HalfOpenConnections(100, 2)
    assert half_open.enter("2001:db8::1") is None
    assert half_open.enter("2001:db8::2") is None
    assert half_open.enter("2001:db8::3") == "half-open-connections-per-ip"
    assert half_open.enter("2001:db8:0:1::3") is None
    half_open.leave("2001:db8::1")
    assert half_open.enter("2001:db8::3") is None
    assert half_open.total == 3
