"""Errors as Spark's users see them: without the way they came.

Spark prints the traceback of a Python error before its text, and cuts long ones. What is wrong with
options, topics or brokers is said by the text alone; bugs keep their traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from barnabas_pipelines.errors import PipelineError

P = ParamSpec("P")
T = TypeVar("T")


def with_plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """The function, raising a PipelineError from here without what led to it."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except PipelineError as error:
            raise error.with_traceback(None) from None

    return call
