"""RE2 patterns of subscriptions: whether one is valid, and which topics it matches.

RE2 takes time in proportion to pattern and text, whatever the pattern; a pattern matches whole
names. Source: CG-8. Not here: when a group resolves its patterns (`pattern_refresh.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from barnabas_protocol.errors import ErrorCode, KafkaError

PATTERNS_KEPT = 256
PROGRAM_BYTES_MAX = 1 << 20


def check_pattern(pattern: str, chars_max: int) -> None:
    """Refuse a pattern that RE2 cannot take. Raises: KafkaError 128."""
    if len(pattern) > chars_max:
        raise _invalid(pattern[:64], f"longer than {chars_max} characters")
    _compile(pattern)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that the pattern matches. Raises: KafkaError 128."""
    compiled = _compile(pattern)
    return [name for name in names if compiled.fullmatch(name) is not None]


@lru_cache(maxsize=PATTERNS_KEPT)
def _compile(pattern: str) -> Any:
    import re2  # a library of its own, loaded when somebody subscribes to a pattern

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PROGRAM_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, ValueError) as error:
        raise _invalid(pattern, str(error)) from None


def _invalid(pattern: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.",
    )
