"""Every error that pipelines raise by themselves: the type says what to do.

    OptionsError        an option is unknown, malformed or contradicts another: change it
    DataLossError       records that were to be read are gone: decide, then go on
    TopicGoneError      a topic that is read does not exist (any more)
    UnreachableError    no broker responds
    CorruptDataError    a batch cannot be read: look at the broker's disk
    StalledError        records that must be there do not come
    ColumnsError        a DataFrame does not have the columns that a topic takes: change it
    DeliveryError       rows were not acknowledged by the brokers: see why, write them again
    RegistryError       the schema registry is away or refuses: nothing was decoded, run it again

Not here: how Spark shows them. It prints the text of a Python error behind the worker's traceback
and cuts long ones, so the first sentence says what is wrong, and what to do follows.

`failure_line` is one line with the reason of a failure: Spark wraps a Python error of a worker as
text behind its traceback in the message of a Java exception; the text of our own errors wins.

Invariants: all derive from `PipelineError`, take one text, and so can be pickled.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar


class PipelineError(Exception):
    """All that pipelines raise by themselves."""


class OptionsError(PipelineError, ValueError):
    """An option is unknown, malformed, out of range, missing or contradicts another."""


class DataLossError(PipelineError):
    """Records that were to be read are gone; the text says which, how many, and what to do."""


class TopicGoneError(PipelineError):
    """A topic or partition that is to be read does not exist, or not any more."""


class UnreachableError(PipelineError):
    """No broker could be reached for as long as the settings allow."""


class CorruptDataError(PipelineError):
    """What a broker has stored fails its checksum or cannot be decoded."""


class StalledError(PipelineError):
    """The broker says that there are records, but none came for as long as the options allow."""


class ColumnsError(PipelineError, ValueError):
    """A DataFrame that is to be written lacks a column, or has one of a wrong type."""


class DeliveryError(PipelineError):
    """Rows could not be written; some of the same task may have been."""


class RegistryError(PipelineError):
    """The schema registry did not respond, or refused; nothing that needs it was written."""


P = ParamSpec("P")
T = TypeVar("T")

_LINE_LENGTH_MAX: Final = 600
_OURS: Final = re.compile(r"(?:barnabas_pipelines|barnabas_client)\.[\w.]+: ([^\n]+)")
_CAUSE: Final = re.compile(
    r"^(?:Caused by: |=== )?(?:[\w$]+\.)+(\w*(?:Error|Exception)): (.+)$", re.M
)
_TERMINATED: Final = re.compile(
    r"terminated with exception: (.*?)(?:\sSQLSTATE: |\s*=== Streaming Query|\Z)", re.DOTALL
)
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ([^\n]+)")


_WRITING: Final = "TASK_WRITE_FAILED"
#: Conditions that only say that something failed.
_WRAPPERS: Final = frozenset(
    {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FAILED_EXECUTE_UDF", _WRITING}
)


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


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_LENGTH_MAX else f"{line[: _LINE_LENGTH_MAX - 3]}..."


def with_plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """The function, raising a PipelineError from here without what led to it."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except PipelineError as error:
            raise error.with_traceback(None) from None

    return call
