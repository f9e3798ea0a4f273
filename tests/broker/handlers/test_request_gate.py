"""Who may pass while the broker starts."""

import struct
from typing import Any, cast

import pytest

from barnabas_broker.handlers.request_gate import RequestGate
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.api import ApiKey

CONTROL = [56, 58, 62, 63, 64, 67, 73, 20001, 20002, 20003, 20004, 20005]
OTHERS = [0, 1, 3, 18, 19, 57, 60, 75, 999, -1, 32, 45]


class Session:
    def __init__(self) -> None:
        self.is_closed = False
        self.reason = ""

    def close(self, reason: str) -> None:
        self.is_closed, self.reason = True, reason


def in_flight(key: int) -> InFlightRequest:
    return InFlightRequest(cast(Any, Session()), memoryview(struct.pack(">hhi", key, 0, 0)), 0)


def keys(in_flight_requests: list[InFlightRequest]) -> list[int]:
    return [struct.unpack_from(">h", in_flight.frame)[0] for in_flight in in_flight_requests]


def test_nothing_passes_before_the_gate_is_open() -> None:
    """BOOT-3: no request is answered before the broker is registered."""
    gate, passed = RequestGate(), list[InFlightRequest]()
    for key in (*CONTROL, *OTHERS):
        gate(in_flight(key))
    gate.open(passed.append)
    assert keys(passed) == [*CONTROL, *OTHERS]
    gate(in_flight(3))
    assert keys(passed)[-1] == 3


def test_what_forms_the_cluster_passes_first() -> None:
    """A broker registers at a controller whose own broker may not be registered yet."""
    gate, control, all_ = RequestGate(), list[InFlightRequest](), list[InFlightRequest]()
    before = [key for pair in zip(OTHERS, CONTROL, strict=True) for key in pair]
    for key in before:
        gate(in_flight(key))
    gate.open_control(control.append)
    assert keys(control) == CONTROL
    gate(in_flight(ApiKey.METADATA_FETCH))
    gate(in_flight(ApiKey.METADATA))
    gate(InFlightRequest(cast(Any, Session()), memoryview(b"\0"), 0))
    assert keys(control) == [*CONTROL, ApiKey.METADATA_FETCH]
    gate.open(all_.append)
    assert keys(all_[:-1]) == [*OTHERS, ApiKey.METADATA]
    assert bytes(all_[-1].frame) == b"\0"


@pytest.mark.parametrize("key", [3, 56])
def test_what_waits_on_a_closed_connection_is_dropped(key: int) -> None:
    gate, passed = RequestGate(), list[InFlightRequest]()
    waiting = in_flight(key)
    gate(waiting)
    waiting.session.is_closed = True
    gate.open_control(passed.append)
    gate.open(passed.append)
    assert passed == []


def test_a_frame_that_cannot_be_handled_ends_its_connection_only() -> None:
    gate = RequestGate()
    waiting = [in_flight(56), in_flight(63), in_flight(3)]
    for one in waiting:
        gate(one)

    def dispatch(one: InFlightRequest) -> None:
        raise ValueError("bad")

    gate.open_control(dispatch)
    gate.open(dispatch)
    assert [one.session.is_closed for one in waiting] == [True] * 3
