"""Which replica a consumer had better read from: one in its own rack (KIP-392).

Asked by a leader only. Pure. Invariants: a chosen follower is in the ISR and has the offset that
the consumer asks for; where the leader is as near, it is the leader.
"""

from collections.abc import Mapping

from barnabas_broker.metadata.image import BrokerImage
from barnabas_broker.replication.fetch_session import FetchPartition
from barnabas_broker.replication.fetching import NO_REPLICA
from barnabas_broker.replication.partition import Partition


def replica_in_rack(
    partition: Partition,
    request: FetchPartition,
    rack: str,
    brokers: Mapping[int, BrokerImage],
) -> int:
    """The node of the follower in the rack that is farthest, -1 for the leader itself."""
    if not partition.is_leader or _rack_of(brokers, partition.image.leader) == rack:
        return NO_REPLICA
    chosen, end_offset = NO_REPLICA, -1
    for state in partition.followers:
        if (
            state.node_id in partition.image.isr
            and _rack_of(brokers, state.node_id) == rack
            and state.log_start_offset <= request.fetch_offset <= state.log_end_offset
            and state.log_end_offset > end_offset
        ):
            chosen, end_offset = state.node_id, state.log_end_offset
    return chosen


def _rack_of(brokers: Mapping[int, BrokerImage], node_id: int) -> str | None:
    """The rack of a live broker."""
    broker = brokers.get(node_id)
    return None if broker is None or broker.fenced else broker.rack
