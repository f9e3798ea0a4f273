"""The states of a broker process and the moves between them."""

from itertools import product

import pytest

from barnabas_broker.lifecycle.broker_state import BrokerState, IllegalMoveError, move

FORWARD = [
    BrokerState.NOT_RUNNING,
    BrokerState.STARTING,
    BrokerState.RECOVERY,
    BrokerState.RUNNING,
    BrokerState.PENDING_CONTROLLED_SHUTDOWN,
    BrokerState.SHUTTING_DOWN,
    BrokerState.NOT_RUNNING,
]


def test_states_have_the_numbers_that_kafka_s_dashboards_know() -> None:
    """BOOT-11: the metric is read by people who know Kafka's."""
    assert [int(state) for state in FORWARD[:-1]] == [0, 1, 2, 3, 6, 7]


def test_a_broker_that_lives_to_the_end_goes_through_all_states() -> None:
    """BOOT-11."""
    state = FORWARD[0]
    for to in FORWARD[1:]:
        state = move(state, to)
    assert state is BrokerState.NOT_RUNNING


def test_only_a_drain_that_is_called_off_leads_back() -> None:
    """BOOT-11: and nothing that has begun to stop serves again, or stays where it is."""
    back = {
        (now, to)
        for now, to in product(BrokerState, repeat=2)
        if to <= now and to is not BrokerState.NOT_RUNNING and _is_legal(now, to)
    }
    assert back == {(BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.RUNNING)}
    with pytest.raises(IllegalMoveError):
        move(BrokerState.STARTING, BrokerState.STARTING)


def _is_legal(now: BrokerState, to: BrokerState) -> bool:
    try:
        move(now, to)
    except IllegalMoveError:
        return False
    return True
