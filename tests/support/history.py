"""Checks what was acknowledged against what can be read, per partition.

The producer numbers its records 0, 1, 2... in each partition. After any number of crashes every
acknowledged record must be there once, at the offset that was acknowledged, and the numbers must
rise: what was not acknowledged may be there or not, but not twice and not out of place.
"""

from collections.abc import Iterable, Mapping, Sequence


def violations(
    acknowledged: Mapping[int, Mapping[int, int]], found: Mapping[int, Sequence[tuple[int, int]]]
) -> list[str]:
    """What is wrong with a history, in words.

    Args:
        acknowledged: by partition, the acknowledged offset by number.
        found: by partition, (offset, number) of all records in the order of reading.
    """
    problems: list[str] = []
    for partition, numbers in acknowledged.items():
        records = found.get(partition, ())
        offsets_by_number: dict[int, int] = {}
        last_number, last_offset = -1, -1
        for offset, number in records:
            if offset <= last_offset:
                problems.append(f"{partition}: offset {offset} follows {last_offset}")
            if number in offsets_by_number:
                first = offsets_by_number[number]
                problems.append(f"{partition}: number {number} twice, at {first} and {offset}")
            elif number < last_number:
                problems.append(f"{partition}: number {number} at {offset} follows {last_number}")
            offsets_by_number.setdefault(number, offset)
            last_number, last_offset = max(last_number, number), offset
        for number, offset in numbers.items():
            if number not in offsets_by_number:
                problems.append(f"{partition}: acknowledged {number} at {offset} is lost")
            elif offsets_by_number[number] != offset and offset >= 0:
                at = offsets_by_number[number]
                problems.append(f"{partition}: {number} acknowledged at {offset} is at {at}")
    return problems


def read_acknowledged(lines: Iterable[str]) -> dict[int, dict[int, int]]:
    """Parses lines `partition number offset`."""
    result: dict[int, dict[int, int]] = {}
    for line in lines:
        partition, number, offset = (int(word) for word in line.split())
        result.setdefault(partition, {})[number] = offset
    return result
