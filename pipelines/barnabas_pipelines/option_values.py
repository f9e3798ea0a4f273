"""How the text of an option becomes a value: one function per kind, each telling what it wants.

Not here: which option is of which kind (`options.py`).

Source: the forms are those of Spark's Kafka connector (integration guide of Spark 4.2).
Invariants: a function here gives the value or raises ValueError, whose text completes the sentence
"NAME='text': ".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas_protocol.ids import TopicPartition

#: What JSON says for "from the first record there is" and "behind the last one".
EARLIEST: Final = -2
LATEST: Final = -1

_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_MILLISECONDS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000}
_LONGER_MILLISECONDS: Final = {"h": 3_600_000, "d": 86_400_000}
_OFFSETS_EXAMPLE: Final = '{"orders": {"0": 23, "1": -2}}'


def text(value: str) -> str:
    """The text as it is; it may not be blank."""
    if not value.strip():
        raise ValueError("it is blank")
    return value


def integer(value: str) -> int:
    """A whole number."""
    try:
        return int(value.strip())
    except ValueError:
        raise ValueError("it must be a whole number") from None


def truth(value: str) -> bool:
    """`true` or `false`, in any case."""
    known = {"true": True, "false": False}.get(value.strip().lower())
    if known is None:
        raise ValueError("it must be true or false")
    return known


def duration_ms(value: str) -> int:
    """Milliseconds of `500`, `500ms`, `10s`, `15m`, `2h` or `1d`."""
    match = _DURATION.fullmatch(value)
    units = _MILLISECONDS | _LONGER_MILLISECONDS
    if match is None or match[2].lower() not in units:
        raise ValueError("it must be a duration such as 500ms, 10s, 15m, 2h or 1d")
    return int(match[1]) * units[match[2].lower()]


def names(value: str) -> tuple[str, ...]:
    """Topic names with commas between them, each once."""
    found = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not found:
        raise ValueError("it must name a topic, or several with commas")
    return found


def pattern(value: str) -> re.Pattern[str]:
    """A regular expression for whole topic names."""
    try:
        return re.compile(text(value))
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None


def assignment(value: str) -> tuple[TopicPartition, ...]:
    """The partitions of `{"orders": [0, 1]}`, in order."""
    example = 'it must be JSON such as {"orders": [0, 1]}'
    found = set()
    for topic, partitions in _mapping(value, example).items():
        if not isinstance(partitions, list) or not partitions:
            raise ValueError(example)
        for partition in partitions:
            found.add(TopicPartition(topic, _number(partition, 0, example)))
    return tuple(sorted(found))


def offsets(value: str) -> str | Mapping[TopicPartition, int]:
    """`earliest`, `latest`, or an offset per partition; EARLIEST and LATEST may be among them."""
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return word
    example = f"it must be earliest, latest or JSON such as {_OFFSETS_EXAMPLE}"
    return _per_partition(value, EARLIEST, example)


def timestamps(value: str) -> Mapping[TopicPartition, int]:
    """Milliseconds since 1970 per partition."""
    example = 'it must be JSON such as {"orders": {"0": 1700000000000}}'
    return _per_partition(value, 0, example)


def _per_partition(value: str, least: int, example: str) -> dict[TopicPartition, int]:
    found = {}
    for topic, numbers in _mapping(value, example).items():
        if not isinstance(numbers, dict) or not numbers:
            raise ValueError(example)
        for partition, number in numbers.items():
            if not partition.strip().isdecimal():
                raise ValueError(example)
            found[TopicPartition(topic, int(partition))] = _number(number, least, example)
    return found


def _mapping(value: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError:
        raise ValueError(example) from None
    if not isinstance(found, dict) or not found:
        raise ValueError(example)
    return found


def _number(value: Any, least: int, example: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(example)
    return value


#: By the name that the reference prints.
KINDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": text,
    "int": integer,
    "bool": truth,
    "duration": duration_ms,
    "names": names,
    "pattern": pattern,
    "partitions": assignment,
    "offsets": offsets,
    "timestamps": timestamps,
}
