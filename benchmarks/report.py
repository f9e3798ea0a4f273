"""Results on disk and as tables: one JSON file, merged scenario by scenario, and its Markdown.

The JSON holds raw figures per scenario and kind of broker, with the date of each; a run of some
scenarios renews only those.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.scenario import Figure, Scenario

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """What the figures depend on besides the brokers."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": models[0] if models else platform.machine(),
        "memory_gib": round(memory_bytes / (1 << 30), 1),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=RESULTS.parent)
    return found.stdout.strip() or "unknown"


class Report:
    """The results of one file, `results/<name>.json`, and the table beside it."""

    def __init__(self, name: str) -> None:
        self.path = RESULTS / f"{name}.json"
        self.data: dict[str, Any] = {"scenarios": {}}
        if self.path.exists():
            self.data = json.loads(self.path.read_text())

    def add(
        self,
        scenario: Scenario,
        kind: str,
        figures: dict[str, float],
        date: str,
        others_share: float | None,
    ) -> None:
        """Keep the figures of one scenario and broker; written at once."""
        entry = self.data["scenarios"].setdefault(scenario.name, {"question": scenario.question})
        entry["question"] = scenario.question
        entry[kind] = {name: float(f"{value:.6g}") for name, value in figures.items()}
        entry[f"{kind}_date"] = date
        entry[f"{kind}_others_share"] = None if others_share is None else round(others_share, 3)
        self.data["machine"] = machine()
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.data, indent=1) + "\n")

    def write_markdown(self, scenarios: list[Scenario], versions: str) -> Path:
        """The table as a file of its own."""
        facts = self.data.get("machine", {})
        head = (
            f"{facts.get('cores')} cores ({facts.get('processor')}), {facts.get('memory_gib')} "
            f"GiB, Linux {facts.get('kernel')}, Python {facts.get('python')}, {versions}, "
            f"commit {facts.get('commit')}."
        )
        path = self.path.with_suffix(".md")
        path.write_text(f"{head}\n\n{self.table(scenarios)}\n")
        return path

    def table(self, scenarios: list[Scenario]) -> str:
        """All figures of the scenarios that have results, as a Markdown table."""
        rows = [
            ("Scenario", "Figure", "Apache Kafka", "Barnabas", "Ratio", "Goal", "Met", "Others")
        ]
        for scenario in scenarios:
            entry = self.data["scenarios"].get(scenario.name)
            if entry is None:
                continue
            for index, figure in enumerate(scenario.figures):
                name = scenario.name if index == 0 else ""
                others = _others(entry) if index == 0 else ""
                rows.append((name, *_row(figure, entry), others))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = []
        for number, row in enumerate(rows):
            cells = [
                cell.ljust(width) if column in (0, 1) else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append(f"| {' | '.join(cells)} |")
            if number == 0:
                marks = [
                    "-" * width if column in (0, 1) else "-" * (width - 1) + ":"
                    for column, width in enumerate(widths)
                ]
                lines.append(f"| {' | '.join(marks)} |")
        return "\n".join(lines)


def _row(figure: Figure, entry: dict[str, Any]) -> tuple[str, str, str, str, str, str]:
    apache = entry.get("apache", {}).get(figure.name)
    barnabas = entry.get("barnabas", {}).get(figure.name)
    ratio = f"{barnabas / apache:.2f}" if apache and barnabas is not None else ""
    side = "≤" if figure.is_lower_better else "≥"
    goal = ""
    if figure.goal_ratio is not None:
        goal = f"{side} {figure.goal_ratio:g} x"
    elif figure.goal_value is not None:
        goal = f"{side} {figure.goal_value:g} {figure.unit}"
    is_met = None if barnabas is None else figure.is_met(apache, barnabas)
    met = "" if is_met is None else ("yes" if is_met else "**no**")
    name = f"{figure.name} [{figure.unit}]"
    return name, format_value(apache), format_value(barnabas), ratio, goal, met


def _others(entry: dict[str, Any]) -> str:
    """How much of the machine other processes had during the two measurements."""
    shares = [entry.get(f"{kind}_others_share") for kind in ("apache", "barnabas")]
    return " / ".join("?" if share is None else f"{share:.0%}" for share in shares)


def format_value(value: float | None) -> str:
    """Three significant digits, thousands separated."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
