"""Writes `docs/reference/client-configuration.md` from the rows of the settings classes.

Run as `python -m barnabas_client.config.reference [FILE]`. Not imported by the client. A test
compares the file with what this prints, so that the two cannot drift apart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.config.settings import settings_of
from barnabas_client.config.share_consumer_settings import ShareConsumerSettings
from barnabas_protocol.settings.reference import Columns, default_cell, name_cell, table
from barnabas_protocol.settings.setting import Setting

DEFAULT_PATH: Final = "docs/reference/client-configuration.md"

_INTRODUCTION: Final = """\
# Client settings

This file is written by `python -m barnabas_client.config.reference`; change the rows in
`client/barnabas_client/config/` instead.

Settings are keyword arguments of `Producer`, `Consumer`, `ShareConsumer` and `Admin`;
`bootstrap_servers` comes first and needs no name. They are Kafka's, with underscores for dots;
defaults and ranges are those of its Java client unless a row says otherwise. Kafka's dots and the
text of a properties file are understood, too: `Producer(servers, **{"linger.ms": "20"})`.

What is not listed is refused, and the nearest name is told. Settings that contradict each other are
refused when the object is made, before anything is connected to.
"""

_ROLES: Final[tuple[tuple[str, type[ClientSettings]], ...]] = (
    ("Producer", ProducerSettings),
    ("Consumer", ConsumerSettings),
    ("ShareConsumer", ShareConsumerSettings),
    ("Admin", AdminSettings),
)


def render() -> str:
    """The whole document."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield "## All roles"
    yield ""
    shared = settings_of(ClientSettings)
    yield from _table(shared)
    for title, kind in _ROLES:
        yield ""
        yield f"## {title}"
        yield ""
        yield from _table(
            {
                name: known
                for name, known in settings_of(kind).items()
                if name not in shared or known.default != shared[name].default
            }
        )


def _table(settings: Mapping[str, Setting]) -> Iterator[str]:
    columns: Columns[Setting] = {
        "Setting": name_cell,
        "Type": lambda row: row.kind.name,
        "Default": _default_cell,
        "Valid": lambda row: row.range_text,
        "Unit": lambda row: row.unit,
        "Why": lambda row: row.why,
    }
    yield from table(sorted(settings.values(), key=lambda row: row.name), columns)


def _default_cell(row: Setting) -> str:
    """A truth is one of Python here: settings are keyword arguments."""
    return f"`{row.default}`" if isinstance(row.default, bool) else default_cell(row)


def main(arguments: list[str]) -> None:
    """Write the file that the first argument names, else the one in `docs/`."""
    path = Path(arguments[0] if arguments else DEFAULT_PATH)
    path.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
