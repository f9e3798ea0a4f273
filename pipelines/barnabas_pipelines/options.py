"""The options of `format("barnabas")`, one row each, and how given ones become checked ones.

Names, meanings and defaults are those of Spark's Kafka connector, so that a program changes
`format("kafka")` to `format("barnabas")` and nothing else. Both ways in are checked against this
table: what is unknown is refused with the nearest name instead of being ignored.

`python -m barnabas_pipelines.options` prints the tables of docs/reference/pipelines.md, which a
test compares. Not here: the rows and their kinds (`option_table.py`), what `kafka.…` settings mean
for the client (`kafka_settings.py`).

Source: the structured streaming and Kafka integration guide of Spark 4.2.
Invariants: `Options` that exist are valid; names are compared without case, as Spark does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas_client.config.spellings import SPELLINGS
from barnabas_pipelines import kafka_settings
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.kafka_settings import PREFIX
from barnabas_pipelines.option_table import (
    ALL,
    EARLIEST,
    LATEST,
    READS,
    ROWS,
    WRITES,
    Row,
    Use,
)
from barnabas_protocol.settings.reference import Columns, default_cell, name_cell, table
from barnabas_protocol.settings.suggestions import did_you_mean

__all__ = ["Options", "Use", "parse_options", "render"]

_SHORT: Final = {"bootstrapservers": "kafka.bootstrap.servers"}
_BY_FOLDED_NAME: Final = {row.name.lower(): row for row in ROWS}
_ALL_NAMES: Final = "; docs/reference/pipelines.md has all"
_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Checked options of one use."""

    use: Use
    #: Every row of the use by its name; None where it is not set and has no default.
    values: Mapping[str, Any]
    #: The texts as they were given, by the names of the rows; `kafka.…` settings among them.
    given: Mapping[str, str] = field(repr=False)
    #: Keyword arguments for `Consumer` or `Producer`, `bootstrap_servers` included.
    client_settings: Mapping[str, Any] = field(repr=False)

    def __getitem__(self, name: str) -> Any:
        """The value of a row that is valid for this use."""
        return self.values[name]

    def connector_options(self) -> dict[str, str]:
        """What to give to `format("kafka")` for the same."""
        return {
            name: text
            for name, text in self.given.items()
            if name.lower() not in _BY_FOLDED_NAME or _BY_FOLDED_NAME[name.lower()].is_on_connector
        }


def parse_options(given: Mapping[str, str], use: Use, *, via: str = "python") -> Options:
    """Check the options of a source or sink.

    With `via="connector"`, options that only this source has are refused, and `kafka.…` settings
    that only the Java client has are let through.
    Raises: OptionsError if a name is unknown or not for this use, a value is wrong, something is
        missing, or two options contradict each other.
    """
    texts, kafka = _sorted_out(given, use, via)
    values: dict[str, Any] = {}
    for row in ROWS:
        if use not in row.uses:
            continue
        text = texts.get(row.name, row.default)
        if text is None and row.is_required:
            raise OptionsError(f"{row.name} is missing: {row.why}")
        values[row.name] = None if text is None else row.value(text)
    if use in READS:
        _check_subscription(texts)
        _check_positions(values, use)
    settings = _client_settings(values, kafka, use, via)
    prefixed = {PREFIX + name: text for name, text in kafka.items()}
    return Options(use=use, values=values, given=texts | prefixed, client_settings=settings)


def _sorted_out(
    given: Mapping[str, str], use: Use, via: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Rows by their names, and the other `kafka.…` settings without that prefix."""
    texts: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for spelled, text in given.items():
        folded = _SHORT.get(spelled.lower(), spelled.lower())
        row = _BY_FOLDED_NAME.get(folded)
        if row is None and folded.startswith(PREFIX):
            kafka[folded.removeprefix(PREFIX)] = str(text)
            continue
        if row is None:
            raise OptionsError(_unknown(spelled, use))
        if use not in row.uses:
            allowed = ", ".join(one.value for one in Use if one in row.uses)
            raise OptionsError(f"{row.name} is not for a {use.value}; it is for: {allowed}")
        if via == "connector" and not row.is_on_connector:
            raise OptionsError(f'{row.name} is not known to format("kafka"): leave it out')
        if row.name in texts and texts[row.name] != str(text):
            raise OptionsError(f"{row.name} is given twice, with different values")
        texts[row.name] = str(text)
    return texts, kafka


def _unknown(name: str, use: Use) -> str:
    known = [row.name for row in ROWS if use in row.uses]
    hint = did_you_mean(name, [*known, "bootstrapServers"])
    return f"unknown option {name} for a {use.value}{hint or _ALL_NAMES}"


def _check_subscription(texts: Mapping[str, str]) -> None:
    chosen = [name for name in _SUBSCRIPTIONS if name in texts]
    if len(chosen) != 1:
        found = f"not {' and '.join(chosen)} together" if chosen else "none is there"
        raise OptionsError(f"give one of {', '.join(_SUBSCRIPTIONS)}: {found}")


def _check_positions(values: dict[str, Any], use: Use) -> None:
    """Refuse ends where beginnings belong, and the other way round; set the default beginning."""
    is_batch = use is Use.BATCH_READ
    start = values["startingOffsets"]
    if start is None:
        values["startingOffsets"] = "earliest" if is_batch else "latest"
    elif is_batch and (start == "latest" or _contains(start, LATEST)):
        raise OptionsError(
            "startingOffsets: a batch that begins at the latest offset reads nothing"
        )
    end = values.get("endingOffsets")
    if end is not None and (end == "earliest" or _contains(end, EARLIEST)):
        raise OptionsError("endingOffsets: a batch that ends at the earliest offset reads nothing")
    least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionsError(
            f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}: lower it"
        )


def _contains(position: Any, special: int) -> bool:
    return isinstance(position, Mapping) and special in position.values()


def _client_settings(
    values: Mapping[str, Any], kafka: Mapping[str, str], use: Use, via: str
) -> Mapping[str, Any]:
    if via == "connector":
        kafka_settings.check_not_decided_here(kafka)
        return {}
    settings = kafka_settings.client_settings(kafka, use.role)
    settings["bootstrap_servers"] = values["kafka.bootstrap.servers"]
    if use in READS:
        settings.setdefault("allow_auto_create_topics", False)
        settings["isolation_level"] = values["kafka.isolation.level"]
    kafka_settings.check_settings(settings, use.role)
    return settings


# ---- the reference ---------------------------------------------------------------------------


def render() -> str:
    """The tables of docs/reference/pipelines.md: options, then settings of the client."""
    return "\n".join([*_option_table(), "", *_setting_lists()]) + "\n"


def _option_table() -> Iterator[str]:
    columns: Columns[Row] = {
        "Option": name_cell,
        "Kind": lambda row: row.kind.name,
        "Default": default_cell,
        "Valid": lambda row: row.range_text,
        "For": lambda row: _uses(row),
        "Connector": lambda row: "yes" if row.is_on_connector else "no",
        "Meaning": lambda row: row.why,
    }
    yield from table(ROWS, columns)


def _uses(row: Row) -> str:
    if row.uses == ALL:
        return "all"
    words = {READS: "reads", WRITES: "writes"}
    return words.get(row.uses) or ", ".join(use.value for use in Use if use in row.uses)


def _setting_lists() -> Iterator[str]:
    for title, role in kafka_settings.role_names().items():
        names = sorted(kafka_settings.usable_settings(role))
        listed = ", ".join(f"`{PREFIX}{name.replace('_', '.')}`" for name in names)
        yield f"Settings of the client for {title}: {listed}."
        yield ""
    others = ", ".join(f"`{PREFIX}{name.replace('_', '.')}`" for name in sorted(SPELLINGS))
    yield f"Java's and librdkafka's spellings that are understood too: {others}."
    yield ""
    silent = ", ".join(f"`{PREFIX}{name}`" for name in sorted(kafka_settings.WITHOUT_EFFECT))
    yield f"Accepted without effect when reading, because there is no group: {silent}."


if __name__ == "__main__":
    sys.stdout.write(render())
