"""Records that were delivered: each is acknowledged once."""

from barnabas_client.share.open_records import OpenRecords
from barnabas_client.share.records import AcknowledgedRange, AcknowledgeType, ShareRecord
from tests.client.share.acquired import acquisition


def record(offset: int) -> ShareRecord:
    return ShareRecord("t", 0, offset, 5, 0, None, b"v")


def test_a_record_is_acknowledged_once() -> None:
    """SHR-40: by the acquisition that it came with."""
    opened, locks = OpenRecords(), acquisition()
    opened.deliver(locks, [record(3), record(4)])
    kind = AcknowledgeType.REJECT
    assert opened.acknowledge("t", 0, 3, kind) == (locks, AcknowledgedRange(3, 3, kind))
    assert opened.acknowledge("t", 0, 3, kind) is None
    assert opened.acknowledge("t", 1, 4, kind) is None
    assert len(opened) == 1


def test_all_open_records_are_acknowledged_alike() -> None:
    """SHR-40: what implicit acknowledgement does."""
    opened, locks = OpenRecords(), acquisition()
    opened.deliver(locks, [record(3), record(4), record(6)])
    kind = AcknowledgeType.ACCEPT
    expected = (AcknowledgedRange(3, 4, kind), AcknowledgedRange(6, 6, kind))
    assert opened.acknowledge_all(kind) == {locks: expected}
    assert len(opened) == 0


def test_a_renewed_record_stays_open_under_its_new_lock() -> None:
    """SHR-19: the other records keep their locks, and so do records closed meanwhile."""
    opened, older, newer = OpenRecords(), acquisition(), acquisition()
    opened.deliver(older, [record(3), record(4), record(5)])
    renewals = [opened.acknowledge("t", 0, offset, AcknowledgeType.RENEW) for offset in (3, 5)]
    assert None not in renewals
    opened.acknowledge("t", 0, 5, AcknowledgeType.ACCEPT)
    opened.renew(newer, [AcknowledgedRange(at, at, AcknowledgeType.RENEW) for at in (3, 5)])
    accepted = opened.acknowledge_all(AcknowledgeType.ACCEPT)
    assert {locks: ranges[0][:2] for locks, ranges in accepted.items()} == {
        newer: (3, 3),
        older: (4, 4),
    }
