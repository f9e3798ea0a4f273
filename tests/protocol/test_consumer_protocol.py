import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas_protocol.errors import ParseError

names = st.text(min_size=1, max_size=10)
partitions = st.dictionaries(
    names, st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple), max_size=4
)
user_data = st.none() | st.binary(max_size=20)


@given(
    st.builds(
        Subscription,
        topics=st.lists(names, max_size=4).map(tuple),
        user_data=user_data,
        owned_partitions=partitions,
        generation_id=st.integers(-1, 2**31 - 1),
        rack_id=st.none() | names,
    )
)
def test_subscription_survives_a_round_trip(subscription: Subscription) -> None:
    """Version 3 holds every field; older versions lose only what they lack."""
    assert decode_subscription(encode_subscription(subscription, 3)) == subscription
    for version in range(3):
        read = decode_subscription(encode_subscription(subscription, version))
        assert (read.topics, read.user_data) == (subscription.topics, subscription.user_data)


@given(st.builds(Assignment, partitions=partitions, user_data=user_data))
def test_assignment_survives_a_round_trip(assignment: Assignment) -> None:
    """All assignment versions have the same fields."""
    for version in range(4):
        assert decode_assignment(encode_assignment(assignment, version)) == assignment


def test_subscription_of_version_one_has_the_known_bytes() -> None:
    """formats.md 9, written out by hand."""
    subscription = Subscription(topics=("t",), user_data=None, owned_partitions={"t": (5,)})
    expected = "0001 00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000005"
    assert encode_subscription(subscription, 1) == bytes.fromhex(expected)


def test_newer_versions_are_read_as_the_newest_known() -> None:
    """formats.md 9: fields are only ever appended."""
    blob = b"\x00\x09" + encode_subscription(Subscription(topics=("a",), rack_id="r"), 3)[2:]
    assert decode_subscription(blob + b"future").rack_id == "r"
    blob = b"\x00\x09" + encode_assignment(Assignment(partitions={"a": (1,)}))[2:]
    assert decode_assignment(blob + b"future").partitions == {"a": (1,)}


def test_missing_user_data_is_accepted() -> None:
    """formats.md 9: some old clients omit the trailing length."""
    subscription = encode_subscription(Subscription(topics=("a",)), 0)
    assert decode_subscription(subscription[:-4]).topics == ("a",)
    assignment = encode_assignment(Assignment(partitions={"a": (1, 2)}), 0)
    assert decode_assignment(assignment[:-4]).partitions == {"a": (1, 2)}


def test_an_empty_assignment_assigns_nothing() -> None:
    """The leader may leave a member without an entry; the broker then sends empty bytes."""
    assert decode_assignment(b"") == Assignment(partitions={})


@given(st.binary(max_size=60))
def test_malformed_blobs_raise_only_parse_errors(blob: bytes) -> None:
    """They come from any client."""
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(blob)
        except ParseError:
            continue


def test_a_huge_count_is_refused_before_anything_is_allocated() -> None:
    """formats.md 1: every length is bounded by the bytes that remain."""
    with pytest.raises(ParseError):
        decode_subscription(bytes.fromhex("0000 7fffffff 0001 74"))
