"""The settings of a topic or broker: as the command line has them, and why (CON-117).

The reason is the broker's own documentation of the setting, where it sends one.
"""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigEntry, ConfigResource
from barnabas_client.facts.command_lines import command_line
from barnabas_client.facts.config_facts import entry_data
from barnabas_console.api.responses import json_response
from barnabas_console.context import ConsoleContext

_UNITS: Final = ((".ms", "ms"), (".bytes", "bytes"), (".seconds", "s"), (".minutes", "min"))


async def settings_response(
    request: web.Request, context: ConsoleContext, resource: ConfigResource
) -> web.Response:
    """All settings of a topic or broker, with the command that shows them. Raises: ApiError."""
    viewer = context.viewer(request)
    rows = await viewer.shared(("settings", resource), lambda: _rows(viewer.admin, resource))
    kind = resource.type.name.lower()
    return json_response(
        request,
        {
            "total": len(rows),
            "rows": rows,
            "command": command_line("config describe", kind, resource.name, options=["--all"]),
            "as_of_ms": context.clock.wall_ms(),
        },
    )


async def _rows(admin: Admin, resource: ConfigResource) -> list[dict[str, Any]]:
    """By name."""
    found = await admin.configs.describe([resource], include_documentation=True)
    entries = found[resource].unwrap()
    return [_row(entries[name]) for name in sorted(entries)]


def _row(entry: ConfigEntry) -> dict[str, Any]:
    unit = next((unit for end, unit in _UNITS if entry.name.endswith(end)), None)
    return {
        **entry_data(entry),
        "is_sensitive": entry.is_sensitive,
        "unit": unit,
        "why": entry.documentation,
    }
