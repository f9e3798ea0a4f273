"""What the operator reads of a broker's `/status`."""

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
