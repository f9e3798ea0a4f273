"""The memory of requests: waiting, waking, and never all waiting for each other."""

from barnabas_broker.network.request_memory import RequestMemory


class Waiter:
    def __init__(self) -> None:
        self.woken = 0

    def memory_available(self) -> None:
        self.woken += 1


def test_waiters_go_on_in_order_when_there_is_memory() -> None:
    memory = RequestMemory(100)
    memory.used_bytes, memory.request_count = 150, 2
    first, second = Waiter(), Waiter()
    memory.wait(first)
    memory.wait(second)
    memory.wake()
    assert (first.woken, second.woken) == (0, 0)
    memory.used_bytes, memory.request_count = 100, 1
    memory.wake()
    assert (first.woken, second.woken) == (1, 1)
    assert not memory.waiting


def test_one_may_go_on_where_only_partial_frames_hold_memory() -> None:
    """Nothing else would ever free it."""
    memory = RequestMemory(100)
    memory.used_bytes = 150
    first, second = Waiter(), Waiter()
    memory.wait(first)
    memory.wait(second)
    assert (first.woken, second.woken) == (1, 0)
    assert memory.favoured is first
    memory.rotate()
    assert memory.favoured is second
    memory.forget(second)
    assert memory.favoured is None
    memory.wait(first)
    assert memory.favoured is first


def test_while_requests_are_in_work_nobody_is_favoured() -> None:
    memory = RequestMemory(100)
    memory.used_bytes, memory.request_count = 150, 1
    waiter = Waiter()
    memory.wait(waiter)
    assert memory.favoured is None
    memory.request_count = 0
    memory.wake()
    assert memory.favoured is waiter


def test_no_limit_is_minus_one() -> None:
    """queued.max.request.bytes=-1."""
    assert RequestMemory(-1).limit_bytes > 2**60
