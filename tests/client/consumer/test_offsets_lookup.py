"""Sorting what leaders answer about offsets, without a cluster."""

from barnabas_client import RejectedError, StaleMetadataError
from barnabas_client.consumer.offsets_lookup import LookupRound
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition


def test_codes_of_newer_brokers_fail_their_partition_alone() -> None:
    """A code that is not in our table is told with its number, and raises nothing by itself."""
    outcome: LookupRound[int] = LookupRound()
    moved, strange = TopicPartition("t", 0), TopicPartition("t", 1)
    outcome.add_error(moved, ErrorCode.NOT_LEADER_OR_FOLLOWER, "looking up offsets")
    outcome.add_error(strange, 9999, "looking up offsets")
    assert isinstance(outcome.retriable[moved], StaleMetadataError)
    assert isinstance(outcome.failed[strange], RejectedError)
    assert str(outcome.failed[strange]) == (
        "looking up offsets of t-1 failed (unknown error code 9999)"
    )
