"""The dashboards' files: current, whole, and made of panels that can be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from dashboards import generate
from dashboards.panels import COLUMNS, Dashboard

FOLDER = Path(__file__).resolve().parents[2] / "dashboards"
NAMES = [dashboard.name for dashboard in generate.DASHBOARDS]


def document(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return loaded


def test_the_files_are_what_the_programs_make() -> None:
    """Who edits one in Grafana brings it back as a change of the program."""
    found = {path: path.read_text() for path in FOLDER.glob("*.json")}
    assert found == generate.files(), "run: python -m dashboards.generate"


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_places_of_their_own(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    identities = set()
    for panel in document(name)["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, panel["title"]
                taken.add((x, y))
        identities.add(panel["id"])
    assert len(identities) == len(document(name)["panels"])


@pytest.mark.parametrize("dashboard", generate.DASHBOARDS, ids=lambda one: one.name)
def test_every_panel_says_what_it_shows(dashboard: Dashboard) -> None:
    titles = [panel.title for row in dashboard.rows for panel in row.panels]
    assert len(set(titles)) == len(titles)
    for row in dashboard.rows:
        for panel in row.panels:
            assert panel.text.endswith("."), panel.title
            assert panel.queries, panel.title


@pytest.mark.parametrize("name", NAMES)
def test_the_data_source_is_chosen_and_never_fixed(name: str) -> None:
    """A dashboard that names somebody's own data source shows nothing anywhere else."""
    for panel in document(name)["panels"]:
        if panel["type"] == "row":
            continue
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
