"""Which line of an error is shown: the one that tells what to do."""

import pytest

from barnabas_pipelines.errors import DataLossError, failure_line

FOREACH = """[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function \
in foreach batch sink. Reason: An exception was raised by the Python Proxy. Return Message: \
Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
barnabas_pipelines.errors.TopicGoneError: topic orders was made anew: archive it elsewhere

SQLSTATE: 39000
=== Streaming Query ===
Identifier: archive"""
PLAIN = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: requirement \
failed: barnabas does not support Update mode. SQLSTATE: XXKST
=== Streaming Query ===
Identifier: aggregate
Logical Plan: ..."""
KAFKA = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to \
stage failure: Task 0 in stage 1.0 failed 1 times
Caused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired
\tat org.apache.spark.Thing(Thing.scala:1)
 SQLSTATE: XXKST"""
CONDITION = "[PATH_NOT_FOUND] Path does not exist: file:/gone. SQLSTATE: 42K03"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FOREACH, "topic orders was made anew: archive it elsewhere"),
        (PLAIN, "requirement failed: barnabas does not support Update mode."),
        (KAFKA, "Timeout of 60000ms expired (TimeoutException)"),
        (CONDITION, "Path does not exist: file:/gone. SQLSTATE: 42K03 (PATH_NOT_FOUND)"),
        ("something\n  else", "something else"),
        ("", "RuntimeError"),
    ],
)
def test_the_line_is_what_went_wrong(text: str, said: str) -> None:
    """Wrappings, tracebacks and plans are left out."""
    assert failure_line(RuntimeError(text)) == said


class _WithCause(Exception):
    """An error as PySpark makes it: the cause is kept beside the text."""

    def __init__(self, text: str, cause: Exception) -> None:
        super().__init__(text)
        self._cause = cause


def test_of_a_task_that_wrote_the_cause_is_told() -> None:
    """Spark says only where it wrote to."""
    refused = RuntimeError("[USER_RAISED_EXCEPTION] undecodable record: partition 2, offset 0")
    writing = "[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake. SQLSTATE: 58030"
    said = "undecodable record: partition 2, offset 0 (USER_RAISED_EXCEPTION)"
    assert failure_line(_WithCause(writing, refused)) == said
    stage = f"Job aborted: {writing}\nCaused by: org.apache.spark.SparkRuntimeException: {refused}"
    assert failure_line(RuntimeError(stage)).startswith("[USER_RAISED_EXCEPTION] undecodable")


def test_our_own_errors_are_shown_as_they_are() -> None:
    """They were written for that."""
    assert failure_line(DataLossError("two\nlines")) == "two lines"


def test_a_line_has_an_end() -> None:
    """Some errors print whole plans."""
    assert len(failure_line(RuntimeError("x" * 10_000))) == 600
