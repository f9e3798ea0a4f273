"""Who is heard and who is lost: the pure part of a controller's sessions."""

import pytest

from barnabas_broker.controller.broker_sessions import BrokerSessions
from tests.support.partition_images import cluster

NOBODY_REFUSES: dict[int, int] = {}


def sessions_of(*live: int, now_ms: int = 0) -> BrokerSessions:
    sessions = BrokerSessions(timeout_ms=6000, refused_ms=500)
    sessions.begin(cluster(live), now_ms)
    return sessions


def heard(sessions: BrokerSessions, node_id: int, now_ms: int, offset: int = 7) -> None:
    sessions.heard(node_id, 100 + node_id, offset, now_ms, f"connection {node_id}")


@pytest.mark.parametrize(("now_ms", "is_lost"), [(5999, False), (6000, True)])
def test_a_broker_is_lost_after_a_session_timeout_of_silence(now_ms: int, is_lost: bool) -> None:
    """REG-5: **ours:** session 6000, counted from the last sign of life."""
    sessions = sessions_of(1)
    heard(sessions, 1, 1000)
    assert (sessions.loss(1, NOBODY_REFUSES.get, 1000 + now_ms) is not None) == is_lost


@pytest.mark.parametrize(("now_ms", "is_lost"), [(499, False), (500, True)])
def test_a_broker_that_refuses_is_lost_sooner(now_ms: int, is_lost: bool) -> None:
    """REG-5: and when reconnecting is *refused*, fenced after broker.fence.on.refused.ms 500."""
    sessions = sessions_of(1)
    heard(sessions, 1, 1000)
    assert (sessions.loss(1, {1: 1000}.get, 1000 + now_ms) is not None) == is_lost


def test_a_new_controller_gives_every_unfenced_broker_a_fresh_session() -> None:
    """CTL-6: it has heard nobody, so silence counts from now; what refuses is known already."""
    sessions = sessions_of(1, 2, now_ms=50_000)
    assert sessions.loss(1, NOBODY_REFUSES.get, 55_999) is None
    assert sessions.loss(1, NOBODY_REFUSES.get, 56_000) is not None
    assert sessions.loss(2, {2: 49_400}.get, 50_000) is not None


@pytest.mark.parametrize(
    ("heard_ms", "lost_ms"),
    [(45_500, 51_500), (44_200, 51_500), (30_000, 51_500), (49_000, 55_000), (60_000, 56_000)],
)
def test_the_session_of_who_led_before_goes_on_from_when_it_was_heard(
    heard_ms: int, lost_ms: int
) -> None:
    """REG-5, CTL-6: a controller that hangs costs one session, and never less than the grace."""
    sessions = BrokerSessions(timeout_ms=6000, refused_ms=500, grace_ms=1500)
    sessions.begin(cluster((1, 2)), 50_000, {1: heard_ms, 7: 0})
    assert sessions.loss(1, NOBODY_REFUSES.get, lost_ms - 1) is None
    assert sessions.loss(1, NOBODY_REFUSES.get, lost_ms) is not None
    assert sessions.loss(2, NOBODY_REFUSES.get, 55_999) is None


def test_a_broker_without_a_session_is_lost() -> None:
    """REG-5: none can stay unfenced without anybody listening for it."""
    assert sessions_of(1).loss(2, NOBODY_REFUSES.get, 0) is not None


def test_the_next_loss_is_the_earliest_of_all_brokers() -> None:
    """CTL-8: a timer, set for just the moment when there is something to decide."""
    sessions = sessions_of(1, 2, 3)
    heard(sessions, 1, 900)
    heard(sessions, 2, 400)
    heard(sessions, 3, 800)
    assert sessions.next_loss_ms([1, 2, 3], NOBODY_REFUSES.get) == 6400
    assert sessions.next_loss_ms([1, 3], NOBODY_REFUSES.get) == 6800
    assert sessions.next_loss_ms([1, 2, 3], {3: 1000}.get) == 1500
    assert sessions.next_loss_ms([], NOBODY_REFUSES.get) is None


def test_a_broker_is_alive_while_its_connection_is_open_and_it_was_heard_of_late() -> None:
    """NODE-7: who is known to live keeps the id; who was killed has lost its connections."""
    sessions = sessions_of(1)
    assert not sessions.is_alive(1, 101, 0)  # never heard by this controller
    heard(sessions, 1, 1000)
    assert sessions.is_alive(1, 101, 1000)
    assert not sessions.is_alive(1, 102, 1000)
    assert not sessions.is_alive(1, 101, 7000)
    assert not sessions.connection_ended(1, "another connection")
    assert sessions.is_alive(1, 101, 1000)
    assert sessions.connection_ended(1, "connection 1")
    assert not sessions.is_alive(1, 101, 1000)
    heard(sessions, 1, 1100)
    assert sessions.is_alive(1, 101, 1100)


def test_a_pause_of_the_controller_is_nobodys_silence() -> None:
    """REG-5: a process that was stopped for long has not heard what was said meanwhile."""
    sessions = sessions_of(1)
    heard(sessions, 1, 0)
    sessions.pardon(60_000)
    assert sessions.loss(1, NOBODY_REFUSES.get, 60_001) is None


def test_all_live_brokers_must_have_applied_that_one_shuts_down() -> None:
    """STOP-5: all other live brokers have applied metadata up to the offset of the change."""
    sessions = sessions_of(1, 2, 3)
    for node_id, offset in ((1, 40), (2, 41), (3, 39)):
        heard(sessions, node_id, 0, offset)
    assert not sessions.knows_shutdown(1, [1, 2])  # nobody said that it shuts down
    sessions.shutting_down(1, 40)
    assert sessions.knows_shutdown(1, [1, 2])
    assert not sessions.knows_shutdown(1, [1, 2, 3])
    heard(sessions, 3, 1, 40)
    assert sessions.knows_shutdown(1, [1, 2, 3])
    heard(sessions, 3, 2, 12)  # a late one
    assert sessions.knows_shutdown(1, [1, 2, 3])


def test_a_new_controller_waits_until_all_have_its_whole_log() -> None:
    """STOP-5: where the change stands is not known any more: it counts as the newest record."""
    image = cluster([2], shutting_down=[1])
    sessions = BrokerSessions(timeout_ms=6000, refused_ms=500)
    sessions.begin(image, 0)
    assert not sessions.knows_shutdown(1, [1, 2])
    for node_id in (1, 2):
        heard(sessions, node_id, 0, image.offset - 1)
    assert not sessions.knows_shutdown(1, [1, 2])
    for node_id in (1, 2):
        heard(sessions, node_id, 0, image.offset)
    assert sessions.knows_shutdown(1, [1, 2])
