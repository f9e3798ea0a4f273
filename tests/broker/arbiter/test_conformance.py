"""What every store of the arbiter's record does: one suite for memory, file, etcd and Kubernetes.

The etcd of the interop tests is a real one. `BARNABAS_KUBERNETES_SERVER` (and `_NAMESPACE`,
`_TOKEN_FILE`, `_CA_FILE`) adds a real API server to the fake one.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

from barnabas_broker.arbiter.arbiter import (
    Arbiter,
    ArbiterError,
    ArbiterRecord,
    Leader,
    LeaderListener,
    Member,
    Stored,
    SwapOutcome,
)
from barnabas_broker.arbiter.decided_swap import UndecidedError, swap_until_decided
from barnabas_broker.arbiter.election import Expiry, Verdict
from tests.support.arbiter_faults import Fault
from tests.support.arbiter_stores import MakeStore, StoreUnderTest
from tests.support.simulated_clock import SimulatedClock

MEMBERS = tuple(Member(node_id, bytes([65 + node_id]) * 16) for node_id in range(3))
LISTENERS = (LeaderListener("REPLICATION", "host-0", 9091), LeaderListener("TLS", "fe80::1", 9090))
LEADERS = tuple(Leader(node_id, f"host-{node_id}", 9092) for node_id in range(3))
FIRST = ArbiterRecord("cluster", 1, LEADERS[0], MEMBERS, 1_700_000_000_123)
# What ends with a timeout: the client must not wait for long then.
SLOW = {Fault.SILENT_REQUEST, Fault.SILENT_REPLY, Fault.LATE}
SHORT_TIMEOUT_MS = 400


def on(make_store: MakeStore, test: Callable[[StoreUnderTest], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), make_store() as store:
            await test(store)

    asyncio.run(run())


def taken_over(stored: Stored, node: int, now_ms: int = 5) -> ArbiterRecord:
    """The record with which a node takes leadership: of itself alone if there is none yet."""
    record = stored.record
    if record is None:
        return ArbiterRecord("cluster", 1, LEADERS[node], (MEMBERS[node],), now_ms)
    epoch = record.controller_epoch + 1
    return record._replace(controller_epoch=epoch, leader=LEADERS[node], renewed_ms=now_ms)


async def started(store: StoreUnderTest) -> Stored:
    """The store with a first record."""
    client = store.open()
    assert await client.compare_and_swap(0, FIRST) is SwapOutcome.STORED
    return await client.read()


class Interposed:
    """A client after whose first swap something else happens before its reply is looked at."""

    def __init__(self, inner: Arbiter, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._inner = inner
        self._meanwhile: Callable[[], Awaitable[object]] | None = meanwhile

    async def read(self) -> Stored:
        return await self._inner.read()

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        outcome = await self._inner.compare_and_swap(expected_token, record)
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return outcome

    def watch(self) -> AsyncIterator[Stored]:
        return self._inner.watch()

    async def close(self) -> None:
        await self._inner.close()


def test_record_is_created_once(make_store: MakeStore) -> None:
    """CTL-2: of two first controllers one is too late."""

    async def test(store: StoreUnderTest) -> None:
        one, other = store.open(), store.open()
        assert await one.read() == Stored(None, 0)
        assert await one.compare_and_swap(0, FIRST) is SwapOutcome.STORED
        assert await other.compare_and_swap(0, FIRST) is SwapOutcome.CONFLICT
        stored = await other.read()
        assert stored.record == FIRST
        assert stored.token != 0
        assert await one.read() == stored

    on(make_store, test)


def test_swap_needs_the_token_of_what_is_stored(make_store: MakeStore) -> None:
    """Rule 1: and every swap makes another token."""

    async def test(store: StoreUnderTest) -> None:
        first = await started(store)
        one, other = store.open(), store.open()
        record = taken_over(first, 1)
        assert await one.compare_and_swap(first.token, record) is SwapOutcome.STORED
        second = await other.read()
        assert second.record == record
        assert second.token != first.token
        for token in (first.token, second.token + 1, 0):
            assert await other.compare_and_swap(token, FIRST) is SwapOutcome.CONFLICT
        assert await one.read() == second
        assert await other.compare_and_swap(second.token, FIRST) is SwapOutcome.STORED
        assert (await one.read()).token not in (first.token, second.token)

    on(make_store, test)


def test_every_record_is_read_back_as_it_was_written(make_store: MakeStore) -> None:
    """Rule 7 compares what is stored with what was tried: nothing may be lost or rounded."""
    records = [
        FIRST._replace(leader=None),
        FIRST._replace(members=()),
        FIRST._replace(members=tuple(Member(1000 + n, bytes([n]) * 16) for n in range(5))),
        FIRST._replace(leader=Leader(17, "fe80::1", 65535), controller_epoch=(1 << 31) - 1),
        FIRST._replace(leader=Leader(0, "host-0", 1), renewed_ms=0),
        FIRST._replace(leader=Leader(0, "host-0", 9091, LISTENERS)),
        FIRST._replace(cluster_id="xtzWWN4bTjitpL3kfd9s5g", renewed_ms=1_999_999_999_999),
    ]

    async def test(store: StoreUnderTest) -> None:
        client = store.open()
        for record in records:
            token = (await client.read()).token
            assert await client.compare_and_swap(token, record) is SwapOutcome.STORED
            assert (await store.open().read()).record == record

    on(make_store, test)


def test_exactly_one_of_those_who_race_wins_each_round(make_store: MakeStore) -> None:
    """CTL-1, CTL-3."""

    async def test(store: StoreUnderTest) -> None:
        await started(store)
        clients = [store.open() for _ in LEADERS]
        for now_ms in range(5):
            stored = await clients[0].read()
            tried = [taken_over(stored, node, now_ms) for node in range(len(LEADERS))]
            outcomes = await asyncio.gather(
                *(
                    client.compare_and_swap(stored.token, record)
                    for client, record in zip(clients, tried, strict=True)
                )
            )
            assert sorted(outcome.value for outcome in outcomes) == [
                "conflict",
                "conflict",
                "stored",
            ]
            winner = outcomes.index(SwapOutcome.STORED)
            assert (await clients[winner - 1].read()).record == tried[winner]

    on(make_store, test)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_swap_that_fails_on_its_way_is_decided_by_what_is_stored(
    make_store: MakeStore, fault: Fault
) -> None:
    """Rule 7: lost before or after it took effect, its own write seen as a conflict, 409, 5xx."""

    async def test(store: StoreUnderTest) -> None:
        first = await started(store)
        client = store.open(SHORT_TIMEOUT_MS) if fault in SLOW else store.open()
        tried = taken_over(first, 1)
        store.faults.append(fault)
        decided = await swap_until_decided(client, first.token, tried)
        assert decided.verdict is Verdict.WON
        assert not store.faults
        now = await store.open().read()
        assert now.record == tried
        await store.let_late_arrive()
        assert await store.open().read() == now

    on(make_store, test)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_rival_that_was_quicker_is_found_out(make_store: MakeStore, fault: Fault) -> None:
    """Rule 7, CTL-4: another's epoch is stored when the reply is looked for: step down."""

    async def test(store: StoreUnderTest) -> None:
        first = await started(store)
        rival = store.open()

        async def rival_takes_over() -> None:
            stored = await rival.read()
            record = taken_over(stored, 2)
            assert await rival.compare_and_swap(stored.token, record) is SwapOutcome.STORED
            await store.let_late_arrive()

        client = store.open(SHORT_TIMEOUT_MS) if fault in SLOW else store.open()
        store.faults.append(fault)
        decided = await swap_until_decided(
            Interposed(client, rival_takes_over), first.token, taken_over(first, 1)
        )
        now = await rival.read()
        if decided.verdict is Verdict.WON:  # sent twice by the client: its second try was first
            assert fault is Fault.LOST_REQUEST
        else:
            assert decided == (Verdict.LOST, now)
        assert now.record is not None
        assert now.record.leader == LEADERS[2]

    on(make_store, test)


def test_swap_that_arrives_late_counts_once(make_store: MakeStore) -> None:
    """Rule 7: given up as lost, stored before the next try, and so in conflict with itself."""

    async def test(store: StoreUnderTest) -> None:
        first = await started(store)
        store.faults.append(Fault.LATE)
        client = Interposed(store.open(SHORT_TIMEOUT_MS), store.let_late_arrive)
        tried = taken_over(first, 1)
        decided = await swap_until_decided(client, first.token, tried)
        assert decided.verdict is Verdict.WON
        assert (await store.open().read()).record == tried

    on(make_store, test)


def test_creation_whose_reply_is_lost_is_found_out(make_store: MakeStore) -> None:
    """Rule 7 holds for the first record too."""

    async def test(store: StoreUnderTest) -> None:
        for fault in (Fault.LOST_REPLY, Fault.OWN_CONFLICT, Fault.ERROR_AFTER, Fault.ERROR_BEFORE):
            store.faults.append(fault)
            decided = await swap_until_decided(store.open(), 0, FIRST)
            assert decided.verdict is Verdict.WON
            assert (await store.open().read()).record == FIRST
            await store.clear()

    on(make_store, test)


def test_no_epoch_is_won_twice_whatever_fails(make_store: MakeStore) -> None:
    """CTL-1: several candidates, several clients, faults by seed."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    quick = sorted(set(Fault) - SLOW, key=lambda fault: fault.name)

    async def test(store: StoreUnderTest) -> None:
        await started(store)
        won: list[ArbiterRecord] = []

        async def candidate(node: int) -> None:
            client = store.open()
            for now_ms in range(8):
                if rng.random() < 0.5:
                    store.faults.append(rng.choice(quick))
                stored = await client.read()
                tried = taken_over(stored, node, now_ms)
                try:
                    decided = await swap_until_decided(client, stored.token, tried)
                except UndecidedError:
                    continue
                if decided.verdict is Verdict.WON:
                    won.append(tried)

        await asyncio.gather(*(candidate(node) for node in range(len(LEADERS))))
        epochs = [record.controller_epoch for record in won]
        assert len(set(epochs)) == len(epochs)
        last = (await store.open().read()).record
        assert last is not None
        assert max(epochs) <= last.controller_epoch

    on(make_store, test)


def test_store_that_is_away_is_an_error_and_nothing_is_decided(make_store: MakeStore) -> None:
    """CTL-13: and when it is back, everything is as it was."""

    async def test(store: StoreUnderTest) -> None:
        first = await started(store)
        client = store.open()
        assert await client.read() == first
        tried = taken_over(first, 1)
        store.set_away(True)
        with pytest.raises(ArbiterError):
            await client.read()
        assert await client.compare_and_swap(first.token, tried) is SwapOutcome.UNKNOWN
        with pytest.raises(UndecidedError):
            await swap_until_decided(client, first.token, tried)
        with pytest.raises(ArbiterError):
            await anext(client.watch())
        store.set_away(False)
        assert await client.read() == first
        assert (await swap_until_decided(client, first.token, tried)).verdict is Verdict.WON

    on(make_store, test)


def test_what_is_not_a_record_is_an_error_and_is_not_overwritten(make_store: MakeStore) -> None:
    """Taken for no record, the epoch would begin anew and could lose committed records."""

    async def test(store: StoreUnderTest) -> None:
        first = await started(store)
        client = store.open()
        assert await client.read() == first
        await store.damage()
        for token in (first.token, 0):
            outcome = await client.compare_and_swap(token, taken_over(first, 1))
            assert outcome is not SwapOutcome.STORED
        with pytest.raises(ArbiterError):
            await client.read()
        with pytest.raises(UndecidedError):
            await swap_until_decided(client, first.token, taken_over(first, 1))

    on(make_store, test)


def test_cleared_record_is_none_and_old_tokens_are_void(make_store: MakeStore) -> None:
    """CTL-10: an operator clears it to force an election."""

    async def test(store: StoreUnderTest) -> None:
        first = await started(store)
        client = store.open()
        assert await client.read() == first
        await store.clear()
        assert await client.compare_and_swap(first.token, FIRST) is SwapOutcome.CONFLICT
        assert await client.read() == Stored(None, 0)
        assert await store.open().compare_and_swap(0, FIRST) is SwapOutcome.STORED

    on(make_store, test)


def test_watching_tells_the_present_and_each_change(make_store: MakeStore) -> None:
    """CTL-3, CTL-9: brokers watch this record alone."""

    async def test(store: StoreUnderTest) -> None:
        client = store.open()
        watched = store.open().watch()
        assert await anext(watched) == Stored(None, 0)
        stored = Stored(None, 0)
        for node in range(3):
            record = taken_over(stored, node) if stored.record else FIRST
            assert await client.compare_and_swap(stored.token, record) is SwapOutcome.STORED
            stored = await client.read()
            assert await anext(watched) == stored
        await watched.aclose()  # type: ignore[attr-defined]

    on(make_store, test)


def test_paused_holder_is_replaced_and_finds_out_when_it_wakes(make_store: MakeStore) -> None:
    """Rules 1, 7, 8: its renewal, sent with the token that it knew, changes nothing."""

    async def test(store: StoreUnderTest) -> None:
        mine = await started(store)
        assert mine.record is not None
        holder, observer = store.open(), store.open()
        clock, expiry = SimulatedClock(), Expiry(1000)
        assert not expiry.observe(await observer.read(), clock.monotonic_ms())
        clock.advance(500)
        renewed = mine.record._replace(renewed_ms=9)
        assert (await swap_until_decided(holder, mine.token, renewed)).verdict is Verdict.WON
        mine = await holder.read()
        assert not expiry.observe(await observer.read(), clock.monotonic_ms())
        for _ in range(4):  # the holder is paused from here on
            clock.advance(200)
            assert not expiry.observe(await observer.read(), clock.monotonic_ms())
        clock.advance(200)
        seen = await observer.read()
        assert expiry.observe(seen, clock.monotonic_ms())
        successor = taken_over(seen, 1)
        assert (await swap_until_decided(observer, seen.token, successor)).verdict is Verdict.WON
        decided = await swap_until_decided(holder, mine.token, renewed._replace(renewed_ms=10))
        assert decided.verdict is Verdict.LOST
        assert (await observer.read()).record == successor

    on(make_store, test)


def test_jumps_of_the_wall_clock_neither_end_nor_prolong_leadership(make_store: MakeStore) -> None:
    """Rule 8: whatever the record says about time, observers only see that it changes."""

    async def test(store: StoreUnderTest) -> None:
        stored = await started(store)
        holder, observer = store.open(), store.open()
        clock, expiry = SimulatedClock(), Expiry(1000)
        for jump_ms in (0, 10**9, -2 * 10**9, 5):
            clock.jump_wall(jump_ms)
            clock.advance(900)
            assert stored.record is not None
            renewed = stored.record._replace(renewed_ms=clock.wall_ms())
            assert await holder.compare_and_swap(stored.token, renewed) is SwapOutcome.STORED
            stored = await holder.read()
            assert not expiry.observe(await observer.read(), clock.monotonic_ms())
        clock.jump_wall(-(10**9))
        clock.advance(600)
        assert not expiry.observe(await observer.read(), clock.monotonic_ms())
        clock.advance(400)
        assert expiry.observe(await observer.read(), clock.monotonic_ms())

    on(make_store, test)


def test_released_record_is_free_at_once(make_store: MakeStore) -> None:
    """CTL-7: the epoch stays, so that the next one is higher."""

    async def test(store: StoreUnderTest) -> None:
        stored = await started(store)
        assert stored.record is not None
        client = store.open()
        released = stored.record._replace(leader=None, renewed_ms=6)
        assert (await swap_until_decided(client, stored.token, released)).verdict is Verdict.WON
        stored = await store.open().read()
        assert Expiry(10**9).observe(stored, 0)
        assert taken_over(stored, 2).controller_epoch == 2

    on(make_store, test)


def test_client_that_was_closed_can_be_closed_again(make_store: MakeStore) -> None:
    """Stopping happens after half a start too."""

    async def test(store: StoreUnderTest) -> None:
        client = store.open()
        await client.close()
        await client.read()
        await client.close()
        await client.close()

    on(make_store, test)
