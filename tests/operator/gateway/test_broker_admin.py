"""What the operator reads of a broker's `/status`."""

from typing import Any

import pytest

from barnabas_operator.gateway.broker_admin import process_view

STATUS = {
    "node_id": 1,
    "state": "RUNNING",
    "is_fenced": False,
    "drain": "running",
    "size_bytes": 5,
}


def test_directories_without_room_are_told_and_others_are_not() -> None:
    """VOL-5."""
    room = {"free_bytes": 3, "total_bytes": 100, "reserve_bytes": 5}
    directories = [
        {"path": "/a", "online": True, "guard": "ENOUGH", **room},
        {"path": "/b", "online": True, "guard": "FULL", **room},
    ]
    view = process_view({**STATUS, "log_directories": directories})
    assert view.full_disks == ("/b is FULL, reserve 5 of 100 bytes",)


def test_a_broker_without_a_guard_is_read_all_the_same() -> None:
    """A rolling upgrade has both."""
    assert (
        process_view({**STATUS, "log_directories": [{"path": "/a", "online": True}]}).full_disks
        == ()
    )
    assert process_view(STATUS).full_disks == ()


@pytest.mark.parametrize(
    ("told", "plain", "secure"),
    [
        ({}, None, None),
        ({"connections_by_listener": {"PLAINTEXT": 2, "REPLICATION": 3}}, 2, 0),
        # Outside is plain until the first phase with certificates.
        ({"connections_by_listener": {"PLAINTEXT": 2, "EXTERNAL": 4}}, 6, 0),
        (
            {
                "connections_by_listener": {"PLAINTEXT": 2, "CLIENTS": 1, "EXTERNAL": 4},
                "plaintext_connections_by_listener": {"EXTERNAL": 3},
                "tls": {"EXTERNAL": {"certificate_sha256": "a"}},
            },
            5,
            2,
        ),
        (
            {
                "connections_by_listener": {"CERTIFICATES": 1, "EXTERNAL": 4},
                "plaintext_connections_by_listener": {},
                "tls": {"EXTERNAL": {"certificate_sha256": "a"}},
            },
            0,
            5,
        ),
    ],
)
def test_clients_are_counted_by_whether_they_have_tls(
    told: dict[str, Any], plain: int | None, secure: int | None
) -> None:
    """SEC-89: those from outside among them, whose one port takes both for a while."""
    view = process_view({**STATUS, **told})
    assert (view.plain_connections, view.secure_connections) == (plain, secure)
