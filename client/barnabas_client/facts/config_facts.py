"""Data of `barnabas config`: one setting as it is in force."""

from __future__ import annotations

from typing import Any

from barnabas_client.admin.values.configs import ConfigEntry


def entry_data(entry: ConfigEntry) -> dict[str, Any]:
    """A setting; the value of a sensitive one is `(hidden)`."""
    return {
        "name": entry.name,
        "value": "(hidden)" if entry.is_sensitive else entry.value,
        "source": entry.source.name.lower().replace("_", "-"),
        "read_only": entry.is_read_only,
        "type": entry.type.name.lower(),
    }
