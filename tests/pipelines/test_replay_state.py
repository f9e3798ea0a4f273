"""What a replay remembers, and how fast it goes."""

from dataclasses import replace

import pytest

from barnabas_pipelines.errors import OptionsError, PipelineError, TopicGoneError
from barnabas_pipelines.replay.state import ReplayState, parse_state
from barnabas_pipelines.replay.task import Pace, task_rate

STATE = ReplayState(
    requested={"path": "/a", "target": "again", "from_ms": None, "partitions": [0, 2]},
    topic_id="abc",
    table_id="the table",
    version=3,
    replay_id="4a5b",
    counts={0: 5, 1: 0},
)


def test_what_is_written_is_read_back() -> None:
    """Also when it is done."""
    assert parse_state(STATE.to_json()) == STATE
    done = replace(STATE, is_done=True)
    assert parse_state(done.to_json()) == done


@pytest.mark.parametrize("text", ["", "{}", '{"version": 9}', STATE.to_json()[:-9]])
def test_what_is_no_state_is_refused(text: str) -> None:
    """Beginning again instead would double everything."""
    with pytest.raises(PipelineError, match="no replay"):
        parse_state(text)


def test_another_choice_needs_another_checkpoint() -> None:
    """Counting how much is there works for the same rows only."""
    STATE.check_same(dict(STATE.requested), "abc", "/r")
    STATE.check_same(dict(STATE.requested), None, "/r")
    with pytest.raises(OptionsError, match=r"/r is of another replay: from_ms was None, now it is"):
        STATE.check_same({**STATE.requested, "from_ms": 5}, "abc", "/r")
    with pytest.raises(TopicGoneError, match="made anew"):
        STATE.check_same(dict(STATE.requested), "def", "/r")


def test_a_table_that_was_made_anew_is_not_gone_on_with() -> None:
    """It can have the same version, and other rows in other places."""
    STATE.check_table("the table", "/r")
    with pytest.raises(PipelineError, match="the archive was deleted and made anew"):
        STATE.check_table("another", "/r")


def test_progress_is_at_most_what_each_partition_is_to_get() -> None:
    """More partitions than are known may have been added meanwhile."""
    STATE.check_sent({0: 0, 1: 0})
    STATE.check_sent({0: 5, 1: 0, 2: 0})
    assert STATE.record_count == 5


@pytest.mark.parametrize("sent", [{0: 6, 1: 0}, {0: -1, 1: 0}, {0: 5, 1: 1}])
def test_progress_that_this_replay_cannot_have_made_is_refused(sent: dict[int, int]) -> None:
    """Somebody has committed offsets to its group."""
    with pytest.raises(PipelineError, match="somebody else has committed"):
        STATE.check_sent(sent)


def test_progress_that_is_lost_is_no_new_beginning() -> None:
    """Brokers forget offsets after a while; all would be sent again."""
    with pytest.raises(PipelineError, match="partition 1 of the target has got is not known"):
        STATE.check_sent({0: 5})


def test_a_pace_is_kept_from_the_start_of_a_task() -> None:
    """What was slower for a while may not be made up for in one go above the rate's slices."""
    pace = Pace(100, start_ms=1000)
    assert pace.slice_records == 10
    assert pace.wait_ms(0, 1000) == 0
    assert pace.wait_ms(10, 1000) == 100
    assert pace.wait_ms(10, 1060) == 40
    assert pace.wait_ms(10, 5000) == 0


def test_a_slow_pace_sends_one_record_at_a_time() -> None:
    """Less than one a slice is still one."""
    pace = Pace(0.5, start_ms=0)
    assert pace.slice_records == 1
    assert pace.wait_ms(1, 0) == 2000


def test_without_a_rate_nothing_waits() -> None:
    """The default."""
    pace = Pace(None, start_ms=0)
    assert pace.slice_records is None
    assert pace.wait_ms(10**9, 0) == 0


def test_tasks_that_run_at_once_share_the_rate() -> None:
    """Together they stay below it."""
    assert task_rate(100, task_count=8, slot_count=2) == 50
    assert task_rate(100, task_count=1, slot_count=16) == 100
    assert task_rate(100, task_count=0, slot_count=2) == 100
