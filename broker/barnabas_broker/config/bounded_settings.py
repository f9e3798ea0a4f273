"""Settings of groups with bounds that are settings themselves: rows, their check, values in force.

`group.<kind>.<key>` is the broker's value. `group.<kind>.min.<key>` and `group.<kind>.max.<key>`
limit it, and what a single group may set under `<kind>.<key>`. Not here: the rows of a kind
(`consumer_group_settings.py`, `share_group_settings.py`). Source: CG-5, SHR-38.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas_broker.config.definitions import INT, BrokerSetting, ConfigError


class Bounded(NamedTuple):
    """A number with its bounds, inclusive."""

    value: int
    minimum: int
    maximum: int

    def in_force(self, override: str | None) -> int:
        """Return what holds for a group with this value of its own.

        The bounds may have changed since that was accepted.
        """
        if override is None:
            return self.value
        return min(max(int(override), self.minimum), self.maximum)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRow:
    """One setting of groups with its bounds; what each of the three may be lies in a range."""

    key: str
    default: str
    lowest: str
    highest: str
    why: str
    value_range: tuple[int, int | None] = (1, None)
    lowest_range: tuple[int, int | None] | None = None
    highest_range: tuple[int, int | None] | None = None


def bounded_rows(kind: str, rows: Sequence[BoundedRow]) -> tuple[BrokerSetting, ...]:
    """Return the rows of the broker's table: three for each."""
    made: list[BrokerSetting] = []
    for row in rows:
        lowest_range = row.lowest_range or row.value_range
        highest_range = row.highest_range or row.value_range
        made += (
            BrokerSetting(f"group.{kind}.{row.key}", INT, row.default, row.why, *row.value_range),
            BrokerSetting(
                f"group.{kind}.min.{row.key}",
                INT,
                row.lowest,
                "The least that may be set.",
                *lowest_range,
            ),
            BrokerSetting(
                f"group.{kind}.max.{row.key}",
                INT,
                row.highest,
                "The most that may be set.",
                *highest_range,
            ),
        )
    return tuple(made)


def check_bounded(kind: str, rows: Sequence[BoundedRow], values: Mapping[str, Any]) -> None:
    """Refuse bounds that the broker's own value does not lie in. Raises: ConfigError."""
    for row in rows:
        attribute = row.key.replace(".", "_")
        numbers = [values[f"group_{kind}_{word}{attribute}"] for word in ("min_", "", "max_")]
        if numbers != sorted(numbers):
            raise ConfigError(
                f"group.{kind}.{row.key} must lie between group.{kind}.min.{row.key} and "
                f"group.{kind}.max.{row.key}"
            )
