"""What the pages on Kubernetes show can be applied as it stands, and names what there is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from barnabas_operator.crd import problems

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "barnabas"
PAGES = [
    ROOT / "docs" / "kubernetes.md",
    ROOT / "docs" / "monitoring.md",
    ROOT / "docs" / "consumer-groups.md",
    ROOT / "docs" / "operations" / "external-access.md",
    ROOT / "docs" / "security.md",
    ROOT / "docs" / "security-operations.md",
    ROOT / "docs" / "console.md",
    ROOT / "docs" / "install.md",
    ROOT / "charts" / "barnabas" / "README.md",
    CHART / "templates" / "NOTES.txt",
]
SOURCES = ROOT / "operator" / "barnabas_operator"


def blocks(path: Path) -> list[Any]:
    """The YAML of a page: its fences, or what it pipes into kubectl."""
    text = path.read_text()
    if path.suffix == ".txt":
        text = re.sub(r"\{\{[^}]*\}\}", "demo", text)
        found = re.findall(r"<<EOF\n(.*?)\n  EOF", text, re.DOTALL)
    else:
        found = re.findall(r"^```yaml[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    loaded = [yaml.safe_load(block) for block in found]
    return [block for block in loaded if isinstance(block, dict)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_manifests_are_accepted_by_their_definitions(path: Path) -> None:
    for block in blocks(path):
        if str(block.get("apiVersion", "")).startswith("barnabas.dev/"):
            assert problems(block) == [], block


def test_values_of_the_page_are_values_of_the_chart() -> None:
    validator = Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
    found = [
        block
        for page, value in (("kubernetes.md", "broker"), ("install.md", "brokerImage"))
        for block in blocks(ROOT / "docs" / page)
        if value in block
    ]
    assert len(found) > 1
    for block in found:
        assert [error.message for error in validator.iter_errors(block)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_switches_on_command_lines_exist(path: Path) -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in re.findall(r"--set ([\w.]+)=", path.read_text()):
        place = defaults
        for part in name.split("."):
            if place == {}:  # anything may be in it
                break
            assert part in place, name
            place = place[part]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_annotations_and_labels_are_those_of_the_operator(path: Path) -> None:
    """Or of a policy of the chart."""
    read_by = [*SOURCES.rglob("*.py"), *CHART.glob("templates/*-policy.yaml")]
    source = "\n".join(file.read_text() for file in read_by)
    for name in set(re.findall(r"(?<![\w.])barnabas\.dev/([a-z][\w-]*)", path.read_text())):
        assert name.startswith("v1") or re.search(f"[\"']barnabas\\.dev/{name}[\"']", source), name


@pytest.mark.parametrize("path", PAGES[:3], ids=lambda path: path.name)
def test_links_and_pictures_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_every_link_within_the_page_has_its_heading() -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    headings = {
        re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings
