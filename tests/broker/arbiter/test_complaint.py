"""What is said of a store that does not work."""

import logging

import pytest

from barnabas_broker.arbiter.complaint import Complaint


def test_a_lasting_fault_is_told_once_and_again_after_a_success(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CTL-13: the store may be away for hours, and is asked five times a second."""
    complaint = Complaint(logging.getLogger("barnabas_broker.test"))
    for _ in range(5):
        complaint.tell("not stored", "refused")
    complaint.tell("not stored", "forbidden")
    complaint.is_over()
    complaint.tell("not stored", "forbidden")
    assert [record.getMessage() for record in caplog.records] == [
        "not stored: refused",
        "not stored: forbidden",
        "not stored: forbidden",
    ]
