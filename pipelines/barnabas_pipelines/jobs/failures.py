"""One line that says why a job failed, from whatever Spark, a worker or a client raised. Pure.

Spark wraps what went wrong: a Python error of a worker arrives as text behind its traceback, inside
the message of a Java exception. What our own errors say is worth more than what wraps it.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_LENGTH_MAX: Final = 600
_OURS: Final = re.compile(r"(?:barnabas_pipelines|barnabas_client)\.[\w.]+: ([^\n]+)")
_CAUSE: Final = re.compile(
    r"^(?:Caused by: |=== )?(?:[\w$]+\.)+(\w*(?:Error|Exception)): (.+)$", re.M
)
_TERMINATED: Final = re.compile(
    r"terminated with exception: (.*?)(?:\sSQLSTATE: |\s*=== Streaming Query|\Z)", re.DOTALL
)
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ([^\n]+)")


def failure_line(error: BaseException) -> str:
    """What went wrong, without traceback, on one line."""
    text = str(error).strip()
    if type(error).__module__.startswith(("barnabas_pipelines", "barnabas_client")):
        return _one_line(text)
    ours = _OURS.findall(text)
    if ours:
        return _one_line(ours[-1])
    wrapped = _TERMINATED.search(text)
    if wrapped is not None:
        text = wrapped[1].strip()
    causes = _CAUSE.findall(text)
    condition = _CONDITION.search(text)
    cause = getattr(error, "_cause", None)  # which PySpark keeps and does not print
    if condition is not None and condition[1] == _WRITING and cause is not None:
        return failure_line(cause)
    if condition is not None and condition[1] not in _WRAPPERS:
        return _one_line(f"{condition[2]} ({condition[1]})")
    if causes:
        kind, what = causes[-1]
        return _one_line(f"{what} ({kind})")
    return _one_line(text or type(error).__name__)


_WRITING: Final = "TASK_WRITE_FAILED"
#: Conditions that only say that something failed.
_WRAPPERS: Final = frozenset(
    {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FAILED_EXECUTE_UDF", _WRITING}
)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_LENGTH_MAX else f"{line[: _LINE_LENGTH_MAX - 3]}..."
