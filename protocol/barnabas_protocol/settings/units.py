"""Values of settings with a unit, as people write them: `7d` and `1GiB` for what Kafka counts."""

from __future__ import annotations

from barnabas_protocol.settings.durations import parse_duration_ms
from barnabas_protocol.settings.sizes import parse_size


def without_unit(key: str, value: str) -> str:
    """The value of a setting as brokers take it; only times and sizes have units.

    Raises: ValueError.
    """
    if not any(letter.isalpha() for letter in value):
        return value
    if key.endswith(".ms"):
        return str(parse_duration_ms(value))
    if key.endswith(".bytes"):
        return str(parse_size(value))
    return value
