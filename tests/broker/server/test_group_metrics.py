"""Labels of group metrics are names that clients choose: their number is bounded."""

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_broker.server import group_metrics
from barnabas_broker.server.group_metrics import OTHERS, group_samples


def test_groups_beyond_the_limit_are_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: 100,000 groups of one member made `/metrics` 100,866 lines."""
    monkeypatch.setattr(group_metrics, "GROUPS_TOLD_MAX", 3)
    counters = dict.fromkeys((name for _, _, name in group_metrics._COUNTERS), 0)
    groups: Any = SimpleNamespace(
        count_by_state=dict,
        metrics=SimpleNamespace(**counters),
        runtime=SimpleNamespace(load_ms_last=0),
        member_counts=lambda: ((f"g{number}", number) for number in range(6)),
    )
    told = {
        sample.labels["group"]: sample.value
        for sample in group_samples(groups)
        if sample.name == "barnabas_group_members"
    }
    assert told == {"g0": 0, "g1": 1, "g2": 2, OTHERS: 3 + 4 + 5}
