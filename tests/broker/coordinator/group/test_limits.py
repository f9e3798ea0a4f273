"""What clients may have a coordinator remember (security-findings 9)."""

from barnabas_broker.coordinator.group.group_memory import MEMBER_BYTES
from barnabas_protocol.errors import ErrorCode
from tests.support.group_model import GroupModel

LARGE = (("range", b"x" * 700),)


def test_the_metadata_of_one_member_is_bounded() -> None:
    """More than a record takes could never be stored."""
    model = GroupModel(member_metadata_bytes_max=600)
    assert model.join(protocols=LARGE).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert model.shard.groups == {}
    assert model.join().error is ErrorCode.NONE


def test_the_metadata_of_all_members_of_a_group_is_bounded() -> None:
    """40 members of 20 MB each; who comes again with as much as before is no newcomer."""
    model = GroupModel(group_metadata_bytes_max=1500)
    (first,) = model.stable(protocols=LARGE)
    second = model.join(protocols=LARGE)
    again = model.join(first, protocols=LARGE)
    assert second.error is again.error is ErrorCode.NONE
    assert model.join(protocols=LARGE).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    model.leave(second.response.member_id)
    assert model.shard.groups["g"].metadata_bytes == 705


def test_groups_of_one_host_and_in_all_are_bounded() -> None:
    """By joins and by commits alike; a group that is there is not refused."""
    model = GroupModel(groups_per_host_max=2, groups_max=3)
    for group in ("a", "b"):
        assert model.join(group=group).error is ErrorCode.NONE
    assert model.join(group="c").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert model.join(group="a", version=4).error is ErrorCode.MEMBER_ID_REQUIRED
    assert model.commit({0: 1}, group="d") == {0: ErrorCode.NONE}
    assert model.commit_error({0: 1}, group="e") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert model.commit({0: 2}, group="d") == {0: ErrorCode.NONE}
    assert set(model.shard.groups) == {"a", "b", "d"}


def test_one_network_of_ipv6_is_one_host() -> None:
    """A machine has as many addresses as it likes; each had room for as many groups as a host."""
    model = GroupModel(groups_per_host_max=2, groups_bytes_per_host_max=4 * MEMBER_BYTES)
    for number in range(2):
        joined = model.join(group=f"g{number}", host=f"/2001:db8::{number}")
        assert joined.error is ErrorCode.NONE
    refused = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert model.join(group="g2", host="/2001:db8::2").error is refused
    assert model.join(group="g2", host="/2001:db8:0:1::2").error is ErrorCode.NONE
    assert model.join(group="g0", host="/2001:db8::3", version=4).error is not refused
    assert model.join(group="g1", host="/2001:db8::4", version=4).error is refused


def test_idle_groups_go_when_there_is_no_room() -> None:
    """Empty ones without offsets, long before their time; others stay."""
    model = GroupModel(groups_max=2)
    model.commit({0: 1}, group="kept")
    leader = model.join(group="idle").response.member_id
    model.leave(leader, group="idle")
    model.advance(11_000)
    assert model.join(group="new").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    model.advance(1)
    assert model.join(group="new").error is ErrorCode.NONE
    assert set(model.shard.groups) == {"kept", "new"}
    assert model.shard.groups.quota.count == 2


def test_ids_that_never_join_are_bounded() -> None:
    """Each was kept for half an hour when its client had gone: 3,000 of a long name, 100 MiB."""
    model = GroupModel(groups_bytes_per_host_max=3 * MEMBER_BYTES)
    memory = model.shard.groups.quota.memory
    (first, _) = (model.join(version=4) for _ in range(2))
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert model.join(version=4).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(model.shard.groups["g"].pending_member_ids) == 2
    # An id that was given out is let in, and one that goes makes room.
    joined = model.join(first.response.member_id, version=4)
    model.leave(*model.shard.groups["g"].pending_member_ids)
    model.advance(3_000)
    assert joined.error is ErrorCode.NONE
    assert model.join(version=4).error is ErrorCode.MEMBER_ID_REQUIRED
    model.restart()
    assert memory.used_bytes == 0


def test_what_all_groups_remember_of_their_members_is_bounded() -> None:
    """A megabyte a member and 16 a group, of 20,000 groups a host, was no bound."""
    model = GroupModel(groups_bytes_max=6 * MEMBER_BYTES, groups_bytes_per_host_max=1 << 20)
    memory = model.shard.groups.quota.memory
    members = {group: model.join(group=group, protocols=LARGE) for group in "abc"}
    assert {each.error for each in members.values()} == {ErrorCode.NONE}
    assert model.join(group="d", protocols=LARGE).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(model.shard.groups) == set("abc")
    model.leave(members["a"].response.member_id, group="a")
    assert model.join(group="d", protocols=LARGE).error is ErrorCode.NONE
    for group in list(model.shard.groups):
        del model.shard.groups[group]
    assert memory.used_bytes == 0
