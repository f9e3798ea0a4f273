"""The bounded cache of the newest batches, against a list."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.log.tail_cache import ENTRY_OVERHEAD_BYTES, TailCache
from tests.broker.log.log_fixtures import NOW_MS, LogFixture, client_batch, concatenated


def test_oldest_batches_over_all_logs_go_first() -> None:
    """architecture.md 4: one bound over all logs."""
    cache = TailCache(3 * (100 + ENTRY_OVERHEAD_BYTES))
    first, second = cache.tail(), cache.tail()
    first.append(b"a" * 100, 100, 0, 0)
    second.append(b"b" * 100, 100, 0, 0)
    first.append(b"c" * 100, 100, 1, 1)
    second.append(b"d" * 100, 100, 1, 1)
    assert first.read(0, 1000, 2, True) is None
    assert first.start_offset == 1
    found = second.read(0, 1000, 2, True)
    assert found is not None
    assert concatenated(found.buffers) == b"b" * 100 + b"d" * 100
    assert cache.size_bytes <= cache.limit_bytes


def test_a_batch_larger_than_the_cache_is_not_kept() -> None:
    cache = TailCache(100)
    tail = cache.tail()
    tail.append(bytes(1000), 1000, 0, 9)
    assert tail.read(0, 10_000, 10, True) is None
    assert cache.size_bytes == 0


def test_clearing_gives_the_memory_back_and_does_not_grow_the_order() -> None:
    cache = TailCache(1 << 30)
    tail = cache.tail()
    for round_ in range(50):
        for number in range(100):
            offset = round_ * 100 + number
            tail.append(b"x", 1, offset, offset)
        tail.clear()
    assert cache.size_bytes == 0
    assert cache.entry_count < 1500


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4), st.integers(1, 300)),
        st.tuples(st.just("clear"), st.just(0), st.just(0)),
        st.tuples(st.just("gap"), st.integers(1, 3), st.just(0)),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=150)
@given(OPERATIONS, st.integers(0, 90), st.integers(0, 900), st.integers(0, 100), st.booleans())
def test_reads_equal_those_of_a_list(
    operations: list[tuple[str, int, int]],
    offset: int,
    max_bytes: int,
    limit: int,
    at_least_one: bool,
) -> None:
    """SEG-6: whole batches, at most the maximum, never up to the limit; or not here at all."""
    cache = TailCache(2000)
    tail, other = cache.tail(), cache.tail()
    batches: list[tuple[int, int, bytes]] = []
    end = 0
    for name, count, size in operations:
        if name == "append":
            data = bytes([len(batches) % 251]) * size
            tail.append(data, size, end, end + count - 1)
            other.append(b"o", 1, end, end)
            batches.append((end, end + count - 1, data))
            end += count
        elif name == "gap":
            end += count
        else:
            tail.clear()
            batches.clear()
    found = tail.read(offset, max_bytes, limit, at_least_one)
    if found is None:
        assert not batches or offset < tail.start_offset or cache.size_bytes > 0
        return
    expected: list[bytes] = []
    for _, last, data in batches:
        if last < offset:
            continue
        if last >= limit:
            break
        if sum(map(len, expected)) + len(data) > max_bytes and (expected or not at_least_one):
            break
        expected.append(data)
    assert concatenated(found.buffers) == b"".join(expected)
    assert found.size_bytes == sum(map(len, expected))


def test_a_small_batch_does_not_keep_the_large_request_it_came_in() -> None:
    """architecture.md 4: what the cache counts is what it holds, though all else was refused."""
    fixture = LogFixture()
    batch = bytes(client_batch(b"x"))
    request = bytearray(batch + bytes(1_000_000))
    fixture.log.append_as_leader(memoryview(request)[: len(batch)], 0, now_ms=NOW_MS)
    fixture.log.write_staged()
    found = fixture.log.read_nowait(0, 1 << 20, 1)
    assert found is not None
    (kept,) = found.buffers
    assert isinstance(kept, memoryview)
    assert kept.nbytes == len(batch) == len(kept.obj)  # type: ignore[arg-type]
