"""RE2 patterns of subscriptions: whether one is valid, and which topics it matches.

A pattern matches whole names. Source: CG-8. Not here: what compiling and matching may cost
(`bounded_patterns.py`), and when a group resolves its patterns (`pattern_refresh.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from barnabas_broker.config.bounded_patterns import STEPS_PER_TURN, compile_bounded, steps_of
from barnabas_protocol.errors import ErrorCode, KafkaError

PATTERNS_KEPT = 256
# A name costs up to its length times the instructions of the program: of such a program, about a
# millisecond. Four thousand characters of alternatives have a third of it.
PROGRAM_BYTES_MAX = 1 << 17
NAMES_PER_TURN = 500


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
        steps += steps_of(compiled, name)
        count += 1
        if steps >= STEPS_PER_TURN or count >= NAMES_PER_TURN:
            yield matched
            matched = []
            steps = count = 0
    yield matched


@lru_cache(maxsize=PATTERNS_KEPT)
def _compile(pattern: str) -> Any:
    try:
        return compile_bounded(pattern, PROGRAM_BYTES_MAX)
    except ValueError as error:
        raise _invalid(pattern, str(error)) from None


def _invalid(pattern: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.",
    )
