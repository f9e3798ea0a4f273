"""Where lines of the audit log go, and what becomes of those that cannot be written."""

import asyncio
import json
import logging
import stat
from pathlib import Path

import pytest

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.security.audit.audit_event import AuditSource
from barnabas_broker.security.audit.audit_log import AuditLog
from barnabas_broker.security.audit.audit_writer import (
    FILES_KEPT,
    AuditWriter,
    FileSink,
    LineSink,
    LoggerSink,
)
from tests.broker.security.audit.audit_events import audit_log, denied
from tests.support.in_process_broker import eventually


async def written(log: AuditLog, sink: LineSink, topics: int) -> None:
    """Note so many denials while a writer runs, and stop it."""
    disk = RealDisk()
    writer = AuditWriter(log, disk, sink)
    writer.start()
    for number in range(topics):
        log.note(denied(f"t{number}", AuditSource(principal=f"User:u{number % 50}")))
    await writer.close()
    await writer.close()
    disk.close()


def test_a_file_has_one_line_for_each_event_and_is_its_owner_s(tmp_path: Path) -> None:
    """SEC-70: whoever reads the broker's files by another account reads no names."""
    path = tmp_path / "audit.log"
    asyncio.run(written(audit_log()[0], FileSink(str(path), 10**6), 20))
    lines = path.read_text().splitlines()
    assert [json.loads(line)["resource"] for line in lines] == [f"TOPIC:t{n}" for n in range(20)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_files_are_bounded(tmp_path: Path) -> None:
    """SEC-71: a full file makes room; the last few are kept."""
    path = tmp_path / "audit.log"
    asyncio.run(written(audit_log()[0], FileSink(str(path), 2_000), 400))
    files = list(tmp_path.iterdir())
    assert len(files) == FILES_KEPT + 1
    assert all(file.stat().st_size <= 2_000 for file in files)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


def test_the_logger_has_the_line_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """SEC-70: logger `barnabas.audit`."""
    with caplog.at_level(logging.INFO, "barnabas.audit"):
        asyncio.run(written(audit_log()[0], LoggerSink(), 1))
    (record,) = [one for one in caplog.records if one.name == "barnabas.audit"]
    assert json.loads(record.getMessage())["resource"] == "TOPIC:t0"


class BrokenSink:
    """A disk that is full after some lines."""

    def __init__(self) -> None:
        self.room = 3
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        if len(self.lines) >= self.room:
            raise OSError("no space left")
        self.lines.append(line)

    def close(self) -> None:
        pass


def test_what_cannot_be_written_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """SEC-71: a full disk is no reason to stop, nor to say so in each second."""
    log, _ = audit_log()
    sink = BrokenSink()

    async def test() -> None:
        disk = RealDisk()
        writer = AuditWriter(log, disk, sink)
        writer.start()
        for number in range(5):
            log.note(denied(f"t{number}"))

        async def has_lost() -> bool:
            return log.dropped_count == 2

        await eventually(has_lost)
        log.note(denied("again"))
        await writer.close()
        disk.close()

    asyncio.run(test())
    assert len(sink.lines) == 3
    assert [one.getMessage() for one in caplog.records if "lost" in one.getMessage()] == [
        "lines of the audit log are lost: no space left"
    ]
