"""The pictures of dashboards: well formed, with every panel and every series that has values."""

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from dashboards.generate import DASHBOARDS
from dashboards.picture import Results, Series, drawn

START, END = 1_000.0, 1_060.0
LABELS = {"instance": "demo-0", "job": "demo", "topic": "a<b", "group": "g", "kind": "Topic"}


def results(document: Mapping[str, Any], values: list[float]) -> Results:
    points = [(START + 10 * index, value) for index, value in enumerate(values)]
    found = [Series(labels=LABELS, points=points)] if points else []
    return {
        panel["id"]: [found for _ in panel["targets"]]
        for panel in document["panels"]
        if panel["type"] != "row"
    }


def texts(picture: str) -> list[str]:
    return [
        element.text or ""
        for element in ElementTree.fromstring(picture).iter()
        if element.tag.endswith("}text")
    ]


def test_every_panel_is_drawn_with_its_title() -> None:
    for dashboard in DASHBOARDS:
        document = dashboard.document()
        found = texts(drawn(document, results(document, [3, 3, 0, 5, 3]), START, END))
        for row in dashboard.rows:
            assert row.title in found
            for panel in row.panels:
                assert panel.title in found
        assert "No data" not in found


def test_what_has_no_values_says_so() -> None:
    document = DASHBOARDS[0].document()
    found = texts(drawn(document, results(document, []), START, END))
    panels = [panel for panel in document["panels"] if panel["type"] != "row"]
    assert found.count("No data") == len(panels)


def test_a_gap_is_not_drawn_over() -> None:
    """A broker that was away must not look as if it had been there."""
    document = DASHBOARDS[0].document()
    points = [(START, 1.0), (START + 10, 1.0), (START + 40, 1.0), (START + 50, 1.0)]
    given = {
        panel["id"]: [[Series(labels=LABELS, points=points)] for _ in panel["targets"]]
        for panel in document["panels"]
        if panel["type"] != "row"
    }
    picture = ElementTree.fromstring(drawn(document, given, START, END))
    lines = [one for one in picture.iter() if one.tag.endswith("}polyline")]
    assert lines and all(len((one.get("points") or "").split()) == 2 for one in lines)
