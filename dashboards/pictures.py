# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""Makes the pictures of the dashboards for the documentation.

`python -m dashboards.pictures [minutes]` writes docs/images/dashboard-*.svg.

Six minutes of three brokers, producers whose pace swells, a group that falls behind and catches up,
one broker that is stopped in between; a real Prometheus; `dashboards.picture` draws its answers.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dashboards.generate import DASHBOARDS
from dashboards.picture import Series, drawn
from tests.monitoring.watched_cluster import WatchedCluster, scraping, watched_cluster
from tests.support.barnabas_process import BarnabasProcess
from tests.support.prometheus import Prometheus

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
STEP_SECONDS = 5
TURN_SECONDS = 8
CHOSEN = {
    "$__rate_interval": "30s",
    "$namespace": ".*",
    "$cluster": "demo",
    "$topic": "(orders|payments|clicks)",
    "$group": ".*",
    # The whole story is shorter than what these look back over in earnest.
    "[15m]": "[1m]",
    "[10m]": "[1m]",
    "[5m]": "[1m]",
}


def main(minutes: float) -> None:
    """Live through the story, then draw."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        with (
            watched_cluster(directory / "brokers") as watched,
            scraping(directory / "prometheus", watched) as prometheus,
        ):
            start = time.time()
            story(watched, minutes * 60)
            draw_all(prometheus, start + 20, time.time())


def story(watched: WatchedCluster, seconds: float) -> None:
    """Load of three topics by a slow wave; a broker is away in the middle fifth."""
    for topic in ("payments", "clicks"):
        watched.command("topic", "create", topic, "--partitions", "3", "--replicas", "3")
    began = time.monotonic()
    brokers = watched.brokers.brokers
    while (passed := (time.monotonic() - began) / seconds) < 1:
        turn_began = time.monotonic()
        wave = 1.2 + math.sin(passed * 4 * math.pi)
        for topic, share in (("orders", 1.0), ("clicks", 2.5), ("payments", 0.4)):
            watched.command("produce", topic, lines=round(2000 * wave * share))
        for topic, group, share in (
            ("orders", "billing", 0.6 if passed < 0.5 else 1.7),
            ("clicks", "analytics", 1.0),
            ("payments", "ledger", 1.0),
        ):
            read(watched, topic, group, round(2000 * share * 1.2))
        if 0.4 < passed < 0.6 and is_running(brokers[2]):
            brokers[2].stop()
        elif passed >= 0.6 and not is_running(brokers[2]):
            brokers[2].start()
        time.sleep(max(0.0, TURN_SECONDS - (time.monotonic() - turn_began)))


def is_running(broker: BarnabasProcess) -> bool:
    """Whether the process lives."""
    return broker.process is not None and broker.process.is_running()


def read(watched: WatchedCluster, topic: str, group: str, records: int) -> None:
    """Read so many, or what there is."""
    try:
        watched.command(
            "consume", topic, "--group", group, "--from-beginning",
            "--max-records", str(records), "--timeout", "1",
        )  # fmt: skip
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)


def draw_all(prometheus: Prometheus, start: float, end: float) -> None:
    """One file for each dashboard."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        document = dashboard.document()
        results = {
            panel["id"]: [
                answered(prometheus, panel, target["expr"], start, end)
                for target in panel["targets"]
            ]
            for panel in document["panels"]
            if panel["type"] != "row"
        }
        path = IMAGES / f"dashboard-{dashboard.name}.svg"
        path.write_text(drawn(document, results, start, end))
        print(path)


def answered(
    prometheus: Prometheus, panel: Any, expression: str, start: float, end: float
) -> Sequence[Series]:
    """The series of a query: now for what shows one value, else over the time."""
    for name, value in CHOSEN.items():
        expression = expression.replace(name, value)
    if panel["type"] in ("stat", "table"):
        found = prometheus.query(expression)
        pairs = [(one["metric"], [one["value"]]) for one in found]
    else:
        found = prometheus.query_range(expression, start, end, STEP_SECONDS)
        pairs = [(one["metric"], one["values"]) for one in found]
    return [
        Series(
            labels={**labels, **({"directory": "/data"} if "directory" in labels else {})},
            points=[(float(moment), float(text)) for moment, text in points if text != "NaN"],
        )
        for labels, points in pairs
        if any(text != "NaN" for _, text in points)
    ]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]) if len(sys.argv) > 1 else 6.0)
