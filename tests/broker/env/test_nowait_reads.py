"""How much is read from the page cache without a thread."""

from pathlib import Path

import pytest

from barnabas_broker.env import disk
from barnabas_broker.env.disk import NOWAIT_BYTES_MAX, RealDisk


def test_large_reads_are_left_to_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a hundred fetches of 64 MiB each were copied out of the page cache on the loop."""
    sizes: list[int] = []

    def preadv(descriptor: int, targets: list[memoryview], position: int, flags: int) -> int:
        sizes.append(len(targets[0]))
        return len(targets[0])

    monkeypatch.setattr("barnabas_broker.env.disk.os.preadv", preadv)
    monkeypatch.setattr(disk, "_NOWAIT", 8)
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    try:
        assert file.read_nowait(NOWAIT_BYTES_MAX, 0) is not None
        assert file.read_nowait(NOWAIT_BYTES_MAX + 1, 0) is None
    finally:
        file.close()
    assert sizes == [NOWAIT_BYTES_MAX]
