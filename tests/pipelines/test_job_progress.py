"""What a job says while it runs."""

import io
from typing import Any

from rich.console import Console

from barnabas_pipelines.jobs.progress_bar import BatchProgress, Report

PROGRESS: dict[str, Any] = {
    "batchId": 7,
    "numInputRows": 1500,
    "processedRowsPerSecond": 750.0,
    "durationMs": {"triggerExecution": 2000},
    "sources": [
        {
            "endOffset": {"orders": {"0": 10, "1": 20}},
            "latestOffset": {"orders": {"0": 15, "1": 20, "2": 4}},
        }
    ],
}


def test_a_batch_is_told_in_one_line() -> None:
    """What Spark's progress has, for people."""
    progress = BatchProgress.of_spark(PROGRESS)
    assert progress.text() == "batch 7: 1,500 records, 750/s, 2.0 s, 5 behind"


def test_our_own_source_is_understood_too() -> None:
    """Its offsets have ids beside them."""
    source = {
        "endOffset": {"form": 1, "topics": {"orders": {"id": "x", "offsets": {"0": 10}}}},
        "latestOffset": {"form": 1, "topics": {"orders": {"id": "x", "offsets": {"0": 12}}}},
    }
    assert BatchProgress.of_spark({**PROGRESS, "sources": [source]}).offsets_behind == 2


def test_what_is_not_known_is_left_out() -> None:
    """Sources need not say how far behind they are; nor need rates be there."""
    progress = BatchProgress.of_spark({"batchId": 0, "sources": [{"endOffset": None}]})
    assert progress.text() == "batch 0: 0 records, 0/s, 0.0 s"


def report(*, is_terminal: bool) -> tuple[Report, io.StringIO]:
    """A report, and where it writes to."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, width=120, highlight=False)
    return Report("archive", console), out


def test_without_a_terminal_there_are_plain_lines() -> None:
    """A log keeps every batch."""
    said, out = report(is_terminal=False)
    said.batch(BatchProgress.of_spark(PROGRESS))
    said.amount(3, 10)
    said.close()
    assert out.getvalue().splitlines() == [
        "archive: batch 7: 1,500 records, 750/s, 2.0 s, 5 behind",
        "archive: 3 of 10 records",
    ]
    assert said.record_count == 1500


def test_on_a_terminal_a_bar_shows_what_is_left() -> None:
    """And it is gone at the end."""
    said, out = report(is_terminal=True)
    said.batch(BatchProgress.of_spark(PROGRESS))
    said.batch(BatchProgress.of_spark({**PROGRESS, "numInputRows": 500}))
    said.close()
    assert "2,000 records in 2 batches" in out.getvalue()
    assert "100%" in out.getvalue()
    assert "5 behind" in out.getvalue()


def test_what_others_chose_does_not_drive_the_terminal() -> None:
    """Brackets are no markup: names of topics and errors may have them."""
    said, out = report(is_terminal=False)
    said.line("[red]orders[/red] [PATH_NOT_FOUND]")
    assert out.getvalue() == "archive: [red]orders[/red] [PATH_NOT_FOUND]\n"
