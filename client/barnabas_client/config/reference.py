"""Writes `docs/reference/client-configuration.md` from the rows of the settings classes.

Run as `python -m barnabas_client.config.reference [FILE]`. Not imported by the client. A test
compares the file with what this prints, so that the two cannot drift apart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.config.settings import INT_MAX, LONG_MAX, Setting, settings_of

DEFAULT_PATH: Final = "docs/reference/client-configuration.md"

_INTRODUCTION: Final = """\
# Client settings

This file is written by `python -m barnabas_client.config.reference`; change the rows in
`client/barnabas_client/config/` instead.

Settings are keyword arguments of `Producer`, `Consumer` and `Admin`; `bootstrap_servers` comes
first and needs no name. They are Kafka's, with underscores for dots; defaults and ranges are those
of its Java client unless a row says otherwise. Kafka's dots and the text of a properties file are
understood, too: `Producer(servers, **{"linger.ms": "20"})`.

What is not listed is refused, and the nearest name is told. Settings that contradict each other are
refused when the object is made, before anything is connected to.
"""

_ROLES: Final[tuple[tuple[str, type[ClientSettings]], ...]] = (
    ("Producer", ProducerSettings),
    ("Consumer", ConsumerSettings),
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


def _table(settings: Any) -> Iterator[str]:
    yield "| Setting | Type | Default | Valid | Unit | Why |"
    yield "|---|---|---|---|---|---|"
    for known in sorted(settings.values(), key=lambda known: str(known.name)):
        cells = (
            f"`{known.name}`",
            known.type_name,
            _default(known),
            _valid(known),
            known.row.unit,
            known.row.why.replace("|", "\\|"),
        )
        yield f"| {' | '.join(cells)} |"


def _default(known: Setting) -> str:
    if known.is_required:
        return "(required)"
    value = known.default
    if value is None:
        return ""
    if isinstance(value, tuple):
        return f"`{','.join(value)}`" if value else ""
    return f"`{value}`"


def _valid(known: Setting) -> str:
    row = known.row
    if row.choices:
        return ", ".join(row.choices)
    if row.minimum is None:
        return ""
    if row.maximum in (None, INT_MAX, LONG_MAX):
        return f"at least {row.minimum}"
    return f"{row.minimum} to {row.maximum}"


def main(arguments: list[str]) -> None:
    """Write the file that the first argument names, else the one in `docs/`."""
    path = Path(arguments[0] if arguments else DEFAULT_PATH)
    path.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
