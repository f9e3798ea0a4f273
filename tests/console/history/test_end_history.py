"""How long ago an offset was the end: lag in seconds without reading a record (CON-137)."""

from barnabas_console.history.end_history import PARTITIONS_MAX, POINTS_MAX, EndHistory
from barnabas_protocol.ids import TopicPartition

PLACE = TopicPartition("orders", 4)


def history(*points: tuple[int, int]) -> EndHistory:
    made = EndHistory()
    for at_ms, end in points:
        made.add(PLACE, end, at_ms)
    return made


def test_lag_in_time_is_since_when_the_end_was_there() -> None:
    """A group that stands at 100 while records come is behind since the end left 100."""
    seen = history((0, 100), (10_000, 100), (20_000, 200))
    assert seen.behind_ms(PLACE, 100, 30_000) == 20_000
    assert seen.behind_ms(PLACE, 150, 30_000) == 15_000
    assert seen.behind_ms(PLACE, 200, 30_000) == 10_000


def test_what_was_before_the_history_is_not_known() -> None:
    """Then the record's own timestamp tells."""
    seen = history((0, 100), (10_000, 200))
    assert seen.behind_ms(PLACE, 99, 20_000) is None
    assert seen.behind_ms(TopicPartition("orders", 5), 100, 20_000) is None


def test_a_topic_that_is_made_anew_begins_anew() -> None:
    """Offsets of the old one mean nothing in the new one."""
    seen = history((0, 100), (10_000, 200), (20_000, 5), (30_000, 10))
    assert seen.behind_ms(PLACE, 5, 30_000) == 10_000
    assert seen.behind_ms(PLACE, 4, 30_000) is None


def test_the_past_thins_out_and_stays_right_within_its_steps() -> None:
    """Points are bounded; steady traffic is told exactly however few are left."""
    made = EndHistory()
    for number in range(1_000):
        made.add(PLACE, 50 * number, 10_000 * number)
    now_ms = 9_990_000
    for offset in (49_950, 49_900, 48_000, 45_000):
        assert made.behind_ms(PLACE, offset, now_ms) == now_ms - offset * 200
    reach = min(offset for offset in range(0, 49_950, 50) if made.behind_ms(PLACE, offset, now_ms))
    assert 49_950 - reach > 50 * POINTS_MAX, "reaches further back than evenly kept points"


def test_more_partitions_than_are_kept_do_not_drive_out_one_another() -> None:
    """The first ones stay exact; of the others records tell."""
    made = EndHistory()
    for number in range(PARTITIONS_MAX + 10):
        for at_ms in (0, 10_000):
            made.add(TopicPartition("t", number), at_ms, at_ms)
    assert len(made) == PARTITIONS_MAX
    assert made.behind_ms(TopicPartition("t", 0), 0, 20_000) == 20_000
    made.forget_others([PLACE])
    assert len(made) == 0
