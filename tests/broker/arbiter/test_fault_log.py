"""What is logged of a store that does not work."""

import logging

import pytest

from barnabas_broker.arbiter.fault_log import FaultLog


def test_a_lasting_fault_is_logged_once_and_again_after_a_success(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CTL-13: the store may be away for hours, and is read five times a second."""
    faults = FaultLog(logging.getLogger("barnabas_broker.test"))
    for _ in range(5):
        faults.report("not stored", "refused")
    faults.report("not stored", "forbidden")
    faults.clear()
    faults.report("not stored", "forbidden")
    assert [record.getMessage() for record in caplog.records] == [
        "not stored: refused",
        "not stored: forbidden",
        "not stored: forbidden",
    ]
