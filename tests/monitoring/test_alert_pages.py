"""docs/alerts: a page for each alert, with its rule, and none for others; the index lists them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "alerts"
SECTIONS = ["Meaning", "Impact", "Likely causes", "What to look at", "What to do", "When it goes"]
# That commands of `barnabas` exist is checked on all pages: tests/cli/test_documented_commands.py.
_COMMAND = re.compile(
    r"barnabas \w|kubectl (-n messaging )?(get|describe|logs|top|exec) "
    r"|curl -s http://127\.0\.0\.1:9644/(status|metrics)$"
)
DOCUMENT = yaml.safe_load((ROOT / "dashboards" / "alerts.yaml").read_text(encoding="utf-8"))
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in DOCUMENT["groups"] for rule in group["rules"]
}
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    assert {path.stem for path in PAGES} == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_an_alert_leads_to_its_page(name: str) -> None:
    url = RULES[name]["annotations"]["runbook_url"]
    assert url == f"docs/alerts/{name}.md"
    assert (ROOT / url).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_rule_and_says_all_that_is_asked(page: Path) -> None:
    """Who is woken up finds the same things in the same places."""
    text = page.read_text(encoding="utf-8")
    rule = RULES[page.stem]
    after = f", for {rule['for']}" if "for" in rule else ""
    head = f"# {page.stem}\n\n{rule['labels']['severity']}{after}:\n\n"
    assert text.startswith(f"{head}```promql\n{rule['expr'].strip()}\n```\n")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    assert parts[::2] == SECTIONS
    assert all(body.strip() for body in parts[1::2])
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0].splitlines()
    assert commands and all(_COMMAND.match(command) for command in commands), commands
    # Of several pods kubectl shows the last ten lines each, unless it is told otherwise.
    assert not [one for one in commands if " logs -l " in one and "--tail=" not in one]


def test_the_index_lists_the_alerts() -> None:
    """With what each means, in the order of the rules."""
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \| (.*) \|$", index, re.MULTILINE)
    assert [row[0] for row in rows] == [row[1] for row in rows] == list(RULES)
    for name, _, severity, meaning in rows:
        assert severity == RULES[name]["labels"]["severity"]
        assert f"## Meaning\n\n{meaning}\n" in (FOLDER / f"{name}.md").read_text(encoding="utf-8")
