"""The states of a broker process and the moves between them.

Source: BOOT-11; the values are exported as a metric and are Kafka's.

| from | to |
|---|---|
| NOT_RUNNING | STARTING |
| STARTING | RECOVERY, SHUTTING_DOWN |
| RECOVERY | RUNNING, SHUTTING_DOWN |
| RUNNING | PENDING_CONTROLLED_SHUTDOWN, SHUTTING_DOWN |
| PENDING_CONTROLLED_SHUTDOWN | RUNNING, SHUTTING_DOWN |
| SHUTTING_DOWN | NOT_RUNNING |
"""

from enum import IntEnum

from barnabas_broker.metrics.sample import Sample


class BrokerState(IntEnum):
    """How far a broker is."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


LEGAL_MOVES: dict[BrokerState, frozenset[BrokerState]] = {
    BrokerState.NOT_RUNNING: frozenset({BrokerState.STARTING}),
    BrokerState.STARTING: frozenset({BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN}),
    BrokerState.RECOVERY: frozenset({BrokerState.RUNNING, BrokerState.SHUTTING_DOWN}),
    BrokerState.RUNNING: frozenset(
        {BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN}
    ),
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: frozenset(
        {BrokerState.RUNNING, BrokerState.SHUTTING_DOWN}
    ),
    BrokerState.SHUTTING_DOWN: frozenset({BrokerState.NOT_RUNNING}),
}


class IllegalMoveError(Exception):
    """A broker was told to do what its state does not allow, such as to start twice."""


def move(current: BrokerState, to: BrokerState) -> BrokerState:
    """The state after a move.

    Raises: IllegalMoveError.
    """
    if to not in LEGAL_MOVES[current]:
        raise IllegalMoveError(f"a broker that is {current.name} cannot become {to.name}")
    return to


def state_sample(state: BrokerState) -> Sample:
    """The state as a metric (BOOT-11)."""
    return Sample(
        "barnabas_broker_state",
        "gauge",
        "0 stopped, 1 starting, 2 recovering, 3 running, 6 draining, 7 stopping.",
        {},
        state,
    )
