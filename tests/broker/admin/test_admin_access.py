"""Who may ask what of the admin HTTP."""

import pytest

from barnabas_broker.admin.admin_access import refusal

PAGE = "https://evil.example"


def asked(
    changes: bool, peer: str, own: str, host: str = "10.0.0.5:9644", origin: str | None = None
) -> bool:
    """Whether it is answered."""
    return refusal(changes=changes, peer=peer, own=own, host=host, origin=origin) is None


@pytest.mark.parametrize("host", ["10.0.0.5:9644", "", "demo-broker-0.kafka.svc:9644", "[::1]:1"])
def test_everybody_may_read_over_the_network(host: str) -> None:
    """Probes by the kubelet, Prometheus by whatever name it knows."""
    assert asked(False, "10.0.0.9", "10.0.0.5", host)


@pytest.mark.parametrize(
    ("peer", "own", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.9", "10.0.0.5", False),
        ("", "", True),
        ("nonsense", "10.0.0.5", False),
    ],
)
def test_changes_are_for_the_brokers_own_machine(peer: str, own: str, allowed: bool) -> None:
    """Attack: three requests without a password made all brokers of a cluster unready."""
    assert asked(True, peer, own) is allowed


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:9644", PAGE),
        ("127.0.0.1:9644", "null"),
        ("evil.example:9644", None),
        ("127.0.0.1.evil.example", None),
        ("localhost.evil.example:9644", None),
    ],
)
def test_a_web_page_is_told_nothing_on_a_laptop(
    changes: bool, host: str, origin: str | None
) -> None:
    """Attack: any page could, by its own form or by DNS rebinding."""
    assert not asked(changes, "127.0.0.1", "127.0.0.1", host, origin)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9644", "127.0.0.1", "[::1]:9644", "::1"])
def test_names_of_this_machine_are_known(host: str) -> None:
    assert asked(True, "127.0.0.1", "127.0.0.1", host)
