"""What is a fault of an archive, and what is told only."""

from typing import Any

import pytest

from barnabas_pipelines.archive.findings import PartitionFindings


def findings(**changes: Any) -> PartitionFindings:
    """A partition with 90 records in 100 offsets."""
    values = {"topic": "t", "partition": 2, "compared_from": 0, "end": 100, "record_count": 90}
    return PartitionFindings(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"missing": 3, "first_fault": 7}, "t-2: 3 records of the topic are missing, the first at"),
        ({"doubled": 2, "first_fault": 1}, "2 records are there twice, the first at offset 1"),
        ({"older_doubled": 1}, "1 records are there twice"),
        ({"different": 1, "first_fault": 0}, "1 records differ in key, value, headers or times"),
        ({"surplus": 4}, "4 records are not in the topic"),
        ({"outside": 5}, "5 records lie outside"),
        ({"missing": 1, "different": 2}, "1 records of the topic are missing, 2 records differ"),
    ],
)
def test_each_fault_is_told(changes: dict[str, Any], told: str) -> None:
    """With its count, and the first offset where there is one."""
    assert told in (findings(**changes).fault() or "")


def test_what_a_topic_may_do_is_no_fault() -> None:
    """It compacts, it forgets, it has offsets without records."""
    fine = findings(is_compacted=True, surplus=4, older=10, gone_before=6)
    assert fine.fault() is None
    assert fine.text() == (
        "t-2: up to offset 100, 90 records, each once and the same as in the topic, 4 of them "
        "compacted away there, 10 of them older than the topic, not compared, 20 offsets have no "
        "record there either, 6 offsets were gone before they were read"
    )
    assert (
        findings(record_count=100)
        .text()
        .endswith("100 records, each once and the same as in the topic")
    )
