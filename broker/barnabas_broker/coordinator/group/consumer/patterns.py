"""RE2 patterns of subscriptions: whether one is valid, and which topics it matches.

RE2 takes time in proportion to pattern and text, whatever the pattern, so both are bounded; a
pattern matches whole names. Source: CG-8. Not here: when a group resolves its patterns
(`pattern_refresh.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from barnabas_protocol.errors import ErrorCode, KafkaError

PATTERNS_KEPT = 256
# A name costs up to its length times the instructions of the program: of such a program, about a
# millisecond. Four thousand characters of alternatives have a third of it.
PROGRAM_BYTES_MAX = 1 << 17
# Each is put together of hundreds of ranges, although topics have ASCII names only.
UNICODE_CLASSES_MAX = 16
STEPS_PER_TURN = 500_000
NAMES_PER_TURN = 500
_UNICODE_CLASS = re.compile(r"\\[pP]")


def check_pattern(pattern: str, chars_max: int) -> None:
    """Refuse a pattern that RE2 cannot take. Raises: KafkaError 128."""
    if len(pattern) > chars_max:
        raise _invalid(pattern[:64], f"longer than {chars_max} characters")
    _compile(pattern)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that the pattern matches. Raises: KafkaError 128."""
    return [name for turn in matching_in_turns(pattern, names) for name in turn]


def matching_in_turns(pattern: str, names: Iterable[str]) -> Iterator[list[str]]:
    """Return the same in parts, each of which takes a millisecond or two.

    Raises: KafkaError 128.
    """
    compiled = _compile(pattern)
    matched: list[str] = []
    steps = count = 0
    for name in names:
        if compiled.fullmatch(name) is not None:
            matched.append(name)
        steps += len(name) * compiled.programsize
        count += 1
        if steps >= STEPS_PER_TURN or count >= NAMES_PER_TURN:
            yield matched
            matched = []
            steps = count = 0
    yield matched


@lru_cache(maxsize=PATTERNS_KEPT)
def _compile(pattern: str) -> Any:
    import re2  # a library of its own, loaded when somebody subscribes to a pattern

    if len(_UNICODE_CLASS.findall(pattern)) > UNICODE_CLASSES_MAX:
        raise _invalid(pattern[:64], f"more than {UNICODE_CLASSES_MAX} Unicode classes")

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
