# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""Writes the dashboards' JSON files: `python -m dashboards.generate`. A test keeps them current."""

import json
from pathlib import Path
from typing import Final

from dashboards.cluster import CLUSTER
from dashboards.groups import GROUPS
from dashboards.operator_work import OPERATOR
from dashboards.panels import Dashboard
from dashboards.topics import TOPICS

FOLDER: Final = Path(__file__).resolve().parent
DASHBOARDS: Final[tuple[Dashboard, ...]] = (CLUSTER, TOPICS, GROUPS, OPERATOR)


def files() -> dict[Path, str]:
    """Every dashboard's file and its text."""
    return {
        FOLDER / f"{dashboard.name}.json": json.dumps(dashboard.document(), indent=2) + "\n"
        for dashboard in DASHBOARDS
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
