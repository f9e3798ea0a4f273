"""What is told of log directories: used or failed, and the room on their file systems."""

import errno
from pathlib import Path

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.manager.log_metrics import log_samples
from barnabas_broker.metrics.sample import Histogram
from tests.broker.log.manager_fixtures import (
    TOPIC_ID,
    append,
    manager_over,
    partition,
    run_with,
    topic_config,
)


class UnreachableDisk(RealDisk):
    """A disk whose file systems do not say how large they are."""

    def free_bytes(self, path: str) -> int:
        raise OSError(errno.EIO, "does not answer", path)


def told(manager: LogManager, name: str) -> dict[str, object]:
    return {
        sample.labels["directory"]: sample.value
        for sample in log_samples(manager)
        if sample.name == f"barnabas_log_directory_{name}"
    }


def test_each_directory_tells_its_room_until_it_fails(tmp_path: Path) -> None:
    """MET-3: a disk that fills is seen before it is full; a failed one is not asked any more."""
    good, bad = tmp_path / "good", tmp_path / "bad"

    async def work(manager: LogManager) -> None:
        free, total = told(manager, "free_bytes"), told(manager, "total_bytes")
        assert set(free) == set(total) == {str(good), str(bad)}
        for path, size in free.items():
            assert isinstance(size, int)
            whole = total[path]
            assert isinstance(whole, int)
            assert 0 < size <= whole
        manager.take_offline(str(bad / "x-0"), OSError(errno.EIO, "failed"))
        assert told(manager, "online") == {str(good): 1, str(bad): 0}
        assert set(told(manager, "free_bytes")) == {str(good)}

    run_with(manager_over(good, bad), work)


def test_each_directory_tells_how_long_its_flushes_take(tmp_path: Path) -> None:
    """MET-3: one that has nothing to do is no flush; the other directory has none."""
    used, idle = tmp_path / "used", tmp_path / "idle"

    async def work(manager: LogManager) -> None:
        def flushes() -> dict[str, tuple[int, bool]]:
            return {
                sample.labels["directory"]: (sum(sample.value.counts), sample.value.total > 0)
                for sample in log_samples(manager)
                if sample.name == "barnabas_log_flush_seconds"
                and isinstance(sample.value, Histogram)
            }

        log = manager.create(partition("topic"), TOPIC_ID, topic_config(), directory=str(used))
        assert flushes() == {str(used): (0, False), str(idle): (0, False)}
        append(log, (None, b"v"))
        await log.flush()
        await log.flush()
        assert flushes() == {str(used): (1, True), str(idle): (0, False)}

    run_with(manager_over(used, idle), work)


def test_a_file_system_that_does_not_answer_leaves_the_rest_of_the_scrape_whole(
    tmp_path: Path,
) -> None:
    async def work(manager: LogManager) -> None:
        assert told(manager, "free_bytes") == {}
        assert set(told(manager, "total_bytes")) == {str(tmp_path)}

    run_with(manager_over(tmp_path, disk=UnreachableDisk()), work)


def test_the_memory_of_the_newest_batches_is_told_with_its_limit(tmp_path: Path) -> None:
    """A broker's resident memory rises by that much as records are written: no leak."""

    async def work(manager: LogManager) -> None:
        manager.tail_cache.limit_bytes = 5000
        manager.tail_cache.add(manager.tail_cache.tail(), 100)
        samples = {sample.name: sample.value for sample in log_samples(manager)}
        assert samples["barnabas_tail_cache_bytes"] == manager.tail_cache.size_bytes > 100
        assert samples["barnabas_tail_cache_limit_bytes"] == 5000

    run_with(manager_over(tmp_path), work)
