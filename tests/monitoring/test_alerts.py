"""The alert rules: well formed, each tried by Prometheus' own tool, silent when all is well."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.alert_cases import CASES, AlertCase, on
from tests.support.cache import require_commands, run

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "dashboards" / "alerts.yaml"

HEALTHY = {
    on("up"): "1x240",
    on("barnabas_broker_state"): "3x240",
    on("barnabas_controller_active"): "1x240",
    on("barnabas_controller_fenced_brokers"): "0x240",
    on("barnabas_controller_unclean_elections_total"): "0x240",
    on("barnabas_offline_partitions"): "0x240",
    on("barnabas_under_replicated_partitions"): "0x240",
    on("barnabas_under_min_isr_partitions"): "0x240",
    on("barnabas_log_directory_online", 'directory="/data"'): "1x240",
    on("barnabas_log_directory_free_bytes", 'directory="/data"'): "900-0.1x240",
    on("barnabas_log_directory_total_bytes", 'directory="/data"'): "1000x240",
    on("barnabas_request_failures_total", 'api="PRODUCE"'): "0x240",
    on("barnabas_loop_lag_seconds_max"): "0.004x240",
    on("barnabas_drain_seconds"): "0x240",
    on("barnabas_drain_budget_seconds"): "100x240",
    on("barnabas_group_lag_records", 'group="g",topic="t",partition="0"'): "3x240",
    on("barnabas_group_lag_seconds", 'group="g",topic="t",partition="0"'): "1x240",
    on("barnabas_group_committed_offset", 'group="g",topic="t",partition="0"'): "0+60x240",
    # A group that has read all, and nobody writes.
    on("barnabas_group_lag_records", 'group="h",topic="t",partition="0"'): "0x240",
    on("barnabas_group_committed_offset", 'group="h",topic="t",partition="0"'): "9x240",
    "barnabas_operator_leader": "1x240",
    "barnabas_operator_queue_oldest_seconds": "0x240",
    "barnabas_operator_webhook_certificate_expires_seconds": "31536000x240",
    'barnabas_operator_reconciles_total{kind="topics",result="done"}': "0+1x240",
    'barnabas_operator_api_writes_total{verb="patch",kind="Topic"}': "40x240",
    'barnabas_operator_resources{kind="Topic",namespace="n",broker="b",ready="false"}': "0x240",
}


def rules() -> dict[str, dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text())
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


def test_every_alert_has_a_case_and_says_what_it_is_about() -> None:
    """An alert that was never seen to fire is a hope."""
    assert {case.alert for case in CASES} == set(rules())
    for name, rule in rules().items():
        assert name.startswith("Barnabas")
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert "{{" not in rule["annotations"]["description"]


def test_every_alert_is_explained() -> None:
    """Who is woken up by it finds what to do under its own name."""
    text = (ROOT / "docs" / "monitoring.md").read_text()
    for name in rules():
        assert re.search(rf"^\| `{name}` \|", text, re.MULTILINE), name


@pytest.mark.interop
def test_prometheus_takes_the_rules() -> None:
    require_commands({"promtool": "prometheus"})
    run(["promtool", "check", "rules", RULES])


@pytest.mark.interop
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_the_alert_fires_when_it_should_and_not_before(case: AlertCase, tmp_path: Path) -> None:
    require_commands({"promtool": "prometheus"})
    rule = rules()[case.alert]
    fired = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {
            "summary": case.summary,
            "description": rule["annotations"]["description"],
            "runbook_url": rule["annotations"]["runbook_url"],
        },
    }
    checks = [
        {"alertname": case.alert, "eval_time": f"{case.quiet_at}m", "exp_alerts": []},
        {"alertname": case.alert, "eval_time": f"{case.fires_at}m", "exp_alerts": [fired]},
    ]
    tests = [unit_test(case.series, checks)]
    if case.quiet_series:
        quiet = {"alertname": case.alert, "eval_time": f"{case.fires_at}m", "exp_alerts": []}
        tests.append(unit_test(case.quiet_series, [quiet]))
    tried(tmp_path, tests)


@pytest.mark.interop
def test_nothing_fires_while_all_is_well(tmp_path: Path) -> None:
    """Four hours of a cluster that is used and has no fault."""
    require_commands({"promtool": "prometheus"})
    checks = [
        {"alertname": name, "eval_time": f"{minutes}m", "exp_alerts": []}
        for name in rules()
        for minutes in (1, 90, 239)
    ]
    tried(tmp_path, [unit_test(HEALTHY, checks)])


def unit_test(series: Any, checks: Any) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": text} for name, text in series.items()],
        "alert_rule_test": checks,
    }


def tried(directory: Path, tests: list[dict[str, Any]]) -> None:
    path = directory / "tests.yaml"
    path.write_text(
        yaml.safe_dump(
            {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests},
            sort_keys=False,
        )
    )
    run(["promtool", "test", "rules", path])
