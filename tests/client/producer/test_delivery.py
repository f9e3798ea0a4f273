"""A promise stands for one record of a group, wherever the group's records move."""

import asyncio

import pytest

from barnabas_client.errors import TimedOutError
from barnabas_client.producer.delivery import Deliveries, Delivery, DeliveryGroup


def group_of(count: int) -> DeliveryGroup:
    group = DeliveryGroup("t", 0)
    group.timestamps = [0] * count
    group.value_sizes = [1] * count
    return group


def test_a_promise_follows_its_record_through_moves() -> None:
    """From the line into a batch, and from a batch into its parts."""
    line, batch, first, second = group_of(1), group_of(5), group_of(3), group_of(2)
    waiting, beside = Delivery((line, 0)), Delivery((batch, 1))
    line.move([(0, batch, 4)])
    batch.move([(0, first, 0), (3, second, 0)])
    first.finish(100, -1)
    assert beside.result().offset == 101
    assert not waiting.done()
    assert batch.unfinished_leaf() is second
    second.finish(103, -1)
    assert waiting.result().offset == 104
    assert batch.unfinished_leaf() is None


def test_callbacks_move_with_their_record_and_come_in_order() -> None:
    """PRD-10; one that raises does not keep the others from being called."""
    called: list[int] = []
    batch, first, second = group_of(4), group_of(2), group_of(2)
    deliveries = [Delivery((batch, position)) for position in range(4)]

    def fails(_: Delivery) -> None:
        raise RuntimeError("of no consequence")

    deliveries[0].add_done_callback(fails)
    for delivery in reversed(deliveries):
        delivery.add_done_callback(lambda done: called.append(done.result().offset))
    removed = [0]
    deliveries[3].add_done_callback(removed.append)  # type: ignore[arg-type]
    assert deliveries[3].remove_done_callback(removed.append) == 1  # type: ignore[arg-type]
    batch.move([(0, first, 0), (2, second, 0)])
    first.finish(0, -1)
    second.finish(2, -1)
    assert called == [0, 1, 2, 3]
    assert removed == [0]


def test_giving_up_a_promise_survives_a_move_and_touches_no_other() -> None:
    """`wait_for` cancels what took too long; the record is on its way all the same."""
    line, batch = group_of(1), group_of(2)
    given_up, other = Delivery((line, 0)), Delivery((batch, 0))
    assert given_up.cancel()
    assert not given_up.cancel()
    line.move([(0, batch, 1)])
    assert given_up.cancelled()
    assert given_up.done()
    assert not other.done()
    batch.finish(7, -1)
    assert other.result().offset == 7
    with pytest.raises(asyncio.CancelledError):
        given_up.result()


def test_a_failure_is_the_same_for_all_records_of_a_group() -> None:
    """And awaiting it again does not make its traceback longer."""
    group = group_of(2)
    one, other = Delivery((group, 0)), Delivery((group, 1))
    group.fail(TimedOutError("too late"))
    for delivery in (one, other, one):
        with pytest.raises(TimedOutError) as raised:
            delivery.result()
        assert len(raised.traceback) == 2
    assert other.exception() is one.exception()


def test_metadata_of_records_without_acknowledgement_have_no_offset() -> None:
    """PRD-7: acks=0; the timestamp is the record's own."""
    group = group_of(2)
    group.timestamps = [5, 6]
    group.finish(-1, -1)
    assert Delivery((group, 1)).result() == ("t", 0, -1, 6, -1, 1)
    assert Delivery((group, 0)) != Delivery((group, 0)), "a promise is itself"


def test_deliveries_say_whether_the_broker_has_put_its_own_time() -> None:
    """Who copies records must know that their timestamps are not those that were given."""
    kept, replaced = DeliveryGroup("t", 0), DeliveryGroup("t", 1)
    deliveries = Deliveries(2)
    deliveries.add(kept)
    kept.finish(3, -1)
    assert not deliveries.have_broker_times()
    deliveries.add(replaced)
    replaced.finish(4, 1_000)
    assert deliveries.have_broker_times()
