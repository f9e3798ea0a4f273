"""Assignors of classic groups: range, roundrobin, sticky, cooperative-sticky, your own."""

from barnabas_client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignor,
    GroupMember,
    GroupTopics,
    flattened,
    grouped,
)
from barnabas_client.consumer.assignors.by_name import assignors_for
from barnabas_client.consumer.assignors.range import RangeAssignor
from barnabas_client.consumer.assignors.round_robin import RoundRobinAssignor
from barnabas_client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from barnabas_protocol.consumer_protocol import Assignment, Subscription

__all__ = [
    "NO_GENERATION",
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "GroupMember",
    "GroupTopics",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "assignors_for",
    "flattened",
    "grouped",
]
