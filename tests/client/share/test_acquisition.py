"""How long locks hold, by a clock that is not the broker's."""

from barnabas_client.share.acquisition import Acquisition, TopicIdPartition
from tests.client.share.acquired import LOCK_MS, T0, acquisition


def test_a_lock_begins_between_request_and_response() -> None:
    """SHR-41: nothing is delivered that another may have; nothing is given up too early."""
    locks = Acquisition(
        T0,
        TopicIdPartition(b"t" * 16, 0),
        node_id=1,
        session_number=0,
        lock_ms=LOCK_MS,
        sent_at_ms=1000,
        received_at_ms=1500,
    )
    assert locks.is_deliverable(1000 + LOCK_MS - 1)
    assert not locks.is_deliverable(1000 + LOCK_MS)
    assert locks.is_acknowledgeable(1500 + LOCK_MS - 1)
    assert not locks.is_acknowledgeable(1500 + LOCK_MS)


def test_a_renewal_begins_the_lock_again() -> None:
    """SHR-19: as long as the response says."""
    renewed = acquisition().renewed(15_000, 20_000, 20_001)
    assert renewed.is_acknowledgeable(35_000)
    assert not renewed.is_acknowledgeable(35_001)
    assert renewed.topic_partition == T0
