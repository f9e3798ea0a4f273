"""Dashboards and rules against a running cluster of three brokers and a real Prometheus."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.generate import DASHBOARDS
from dashboards.panels import Dashboard, Query, Variable
from tests.monitoring.expressions import labels_in, metrics_in
from tests.monitoring.secure_metrics import SECURE_METRICS
from tests.monitoring.watched_cluster import GROUP, TOPIC_NAME, scraping, watched_cluster
from tests.support.prometheus import Prometheus
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop
ALERTS = Path(__file__).resolve().parents[2] / "dashboards" / "alerts.yaml"
QUERIES = [
    pytest.param(query, id=f"{dashboard.name}: {panel.title} {index}")
    for dashboard in DASHBOARDS
    for row in dashboard.rows
    for panel in row.panels
    for index, query in enumerate(panel.queries)
]
VARIABLES = [
    pytest.param(variable, id=f"{dashboard.name}: {variable.name}")
    for dashboard in DASHBOARDS
    for variable in dashboard.variables
]


class Seen:
    """What was exposed, and the Prometheus that has scraped it."""

    def __init__(self, prometheus: Prometheus, labels: dict[str, set[str]]) -> None:
        self.prometheus = prometheus
        self.labels = labels


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    directory = tmp_path_factory.mktemp("watched")
    with (
        watched_cluster(directory / "brokers") as watched,
        scraping(directory / "prometheus", watched, ALERTS) as prometheus,
    ):
        scraped = "count(barnabas_broker_state) == 3 and count(barnabas_operator_leader) == 1"
        wait_until(lambda: prometheus.query(scraped) != [], 30, lambda: "nothing is scraped")
        # Something that changes between two scrapes.
        watched.produce(300)
        watched.consume(50)
        grown = (
            f'sum(rate(barnabas_partition_records_in_total{{topic="{TOPIC_NAME}"}}[1m])) > 0'
            f' and sum(barnabas_group_lag_records{{group="{GROUP}"}}) == 650'
        )
        wait_until(
            lambda: prometheus.query(grown) != [],
            30,
            lambda: str(prometheus.query("barnabas_group_lag_records")),
        )
        labels: dict[str, set[str]] = {}
        for family in watched.families():
            for sample in family.samples:
                labels.setdefault(sample.name, set()).update(sample.labels)
        target = {"namespace", "job", "instance"}
        labels |= {name: {*own, *target} for name, own in SECURE_METRICS.items()}
        yield Seen(prometheus, labels)


def rules() -> list[Any]:
    document = yaml.safe_load(ALERTS.read_text())
    return [
        pytest.param(rule["expr"], rule["annotations"]["summary"], id=rule["alert"])
        for group in document["groups"]
        for rule in group["rules"]
    ]


def filled_in(expression: str) -> str:
    """What Grafana would ask, with everything chosen."""
    for name, value in (
        ("$__rate_interval", "1m"),
        ("$namespace", ".*"),
        ("$cluster", "demo"),
        ("$topic", ".*"),
        ("$group", ".*"),
    ):
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def check_names(expression: str, legend: str, labels: dict[str, set[str]]) -> None:
    metrics = metrics_in(expression) - {"up"}
    for metric in metrics:
        assert metric in labels, f"nobody exposes {metric}"
    known = set().union(*(labels[metric] for metric in metrics))
    assert labels_in(expression, legend) <= known


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_a_dashboard_names_what_there_is_and_finds_it(
    seen: Seen, query: Query
) -> None:
    """operator.md 3, pain 19: dashboards that are empty, or name metrics that are gone."""
    expression = filled_in(query.expression)
    check_names(expression, query.legend, seen.labels)
    found = seen.prometheus.query(expression)
    assert found or query.may_be_empty


@pytest.mark.parametrize(("expression", "summary"), rules())
def test_every_alert_names_what_there_is(seen: Seen, expression: str, summary: str) -> None:
    """An alert on a metric that nobody exposes never fires, which looks like health."""
    check_names(expression, "", seen.labels)
    seen.prometheus.query(expression)


def test_prometheus_has_evaluated_every_rule(seen: Seen) -> None:
    def are_evaluated() -> bool:
        return all(rule["health"] == "ok" for rule in seen.prometheus.rules())

    wait_until(are_evaluated, 30, lambda: str(seen.prometheus.rules()))
    assert len(seen.prometheus.rules()) == len(rules())


def test_no_alert_of_the_brokers_fires_in_a_healthy_cluster(seen: Seen) -> None:
    """The operator's resource that is not ready is meant to wait, and needs its time."""
    firing = [
        result["metric"]["alertname"]
        for result in seen.prometheus.query('ALERTS{alertstate="firing"}')
    ]
    assert firing == []


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_choice_has_something_to_choose(seen: Seen, variable: Variable) -> None:
    """`label_values(series, label)`: the series exist, and all but the namespace are labelled."""
    series, _, label = (
        variable.query.removeprefix("label_values(").removesuffix(")").rpartition(",")
    )
    found = seen.prometheus.query(f"count by ({label.strip()}) ({filled_in(series)})")
    assert found
    if label.strip() != "namespace":
        assert all(label.strip() in one["metric"] for one in found)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.name)
def test_every_variable_is_used(seen: Seen, dashboard: Dashboard) -> None:
    text = " ".join(
        [
            *(
                query.expression
                for row in dashboard.rows
                for p in row.panels
                for query in p.queries
            ),
            *(variable.query for variable in dashboard.variables),
        ]
    )
    for variable in dashboard.variables:
        assert f"${variable.name}" in text
