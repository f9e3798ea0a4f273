"""What waits for the next request to a leader: by partition, rising, each offset once."""

from barnabas_client.share.acquisition import TopicIdPartition
from barnabas_client.share.pending_acknowledgements import PendingAcknowledgements, merged
from barnabas_client.share.records import AcknowledgedRange, AcknowledgeType
from tests.client.share.acquired import TOPIC_ID, acquisition

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE


def ranges(*triples: tuple[int, int, int]) -> list[AcknowledgedRange]:
    return [AcknowledgedRange(*triple) for triple in triples]


def test_neighbours_of_one_type_are_one_batch() -> None:
    """SHR-15: the order of a request rises, whatever the order of the program."""
    given = ranges((4, 4, ACCEPT), (0, 1, ACCEPT), (2, 2, RELEASE), (3, 3, ACCEPT), (9, 9, ACCEPT))
    assert list(merged(given)) == ranges(
        (0, 1, ACCEPT), (2, 2, RELEASE), (3, 4, ACCEPT), (9, 9, ACCEPT)
    )


def test_acquisitions_of_a_partition_go_together() -> None:
    """SHR-16: and those of another partition beside them; what is taken is gone."""
    pending = PendingAcknowledgements()
    pending.add(acquisition(), ranges((0, 1, ACCEPT)))
    pending.add(acquisition(), ranges((2, 3, ACCEPT)))
    pending.add(acquisition(1), ranges((7, 7, RELEASE)))
    taken = {one.topic_id_partition.partition: one for one in pending.take(lambda *_: True)}
    assert list(taken[0].ranges) == ranges((0, 3, ACCEPT))
    assert list(taken[1].ranges) == ranges((7, 7, RELEASE))
    assert taken[1].topic_id_partition == TopicIdPartition(TOPIC_ID, 1)
    assert not pending


def test_offsets_that_were_acquired_again_wait_for_a_request_of_their_own() -> None:
    """SHR-16: the older lock has run out, and would take the newer acknowledgement with it."""
    pending = PendingAcknowledgements()
    older, newer = acquisition(), acquisition()
    pending.add(older, ranges((0, 5, ACCEPT)))
    pending.add(newer, ranges((5, 9, ACCEPT)))
    (first,) = pending.take(lambda *_: True)
    assert list(first.ranges) == ranges((5, 9, ACCEPT))
    (second,) = pending.take(lambda *_: True)
    assert list(second.ranges) == ranges((0, 5, ACCEPT))


def test_only_what_fulfils_the_condition_is_taken_and_can_be_put_back() -> None:
    """SHR-41: acknowledgements whose state could not be written are sent again."""
    pending = PendingAcknowledgements()
    pending.add(acquisition(0), ranges((0, 0, ACCEPT)))
    pending.add(acquisition(1), ranges((0, 0, AcknowledgeType.RENEW)))
    (renewal,) = pending.take(lambda one, _: one.topic_partition.partition == 1)
    assert renewal.is_renewal
    pending.restore(renewal)
    assert len(pending.take(lambda *_: True)) == 2
