"""A file that is on no disk: there for the block, gone behind it."""

from pathlib import Path

import pytest

from barnabas_broker.env.memory_file import memory_file


def test_it_has_its_content_and_is_gone_behind_the_block() -> None:
    """SEC-2: a key that is given inline never reaches a disk."""
    with memory_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert "memfd:" in str(Path(path).readlink())
    with pytest.raises(OSError, match="No such file"):
        Path(path).read_bytes()
