"""Requests of members of classic groups, for the scripts about them."""

from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.consumer_protocol import Subscription, encode_subscription
from tests.interop.oracle.side import Side

SUBSCRIPTION = encode_subscription(Subscription(topics=("some",)))
OTHER_SUBSCRIPTION = encode_subscription(Subscription(topics=("some", "other")))
PROTOCOLS = [{"name": "range", "metadata": SUBSCRIPTION}]


def join_fields(group: str, member: str = "", **more: Any) -> dict[str, Any]:
    """A JoinGroup request of a consumer."""
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
        **more,
    }


def commit_fields(
    group: str, topic: str, offset: int = 5, index: int = 0, **more: Any
) -> dict[str, Any]:
    """An OffsetCommit request for one partition."""
    committed = {
        "partition_index": index, "committed_offset": offset, "committed_metadata": "note",
        "committed_leader_epoch": 0,
    }  # fmt: skip
    return {"group_id": group, "topics": [{"name": topic, "partitions": [committed]}], **more}


async def new_member(side: Side, group: str, symbol: str, *, on: str = "main", **more: Any) -> str:
    """A member id and a join sent; `finish` on the connection takes the answer."""
    answer = await side.call(ApiKey.JOIN_GROUP, 9, silent=True, on=on, **join_fields(group, **more))
    member: str = answer.member_id
    side.symbols.learn(member, symbol)
    return member


async def sole_member(side: Side, group: str, **more: Any) -> str:
    """A stable group with one member; nothing of it is compared."""
    member = await new_member(side, group, "sole")
    await side.call(ApiKey.JOIN_GROUP, 9, silent=True, **join_fields(group, member, **more))
    await side.call(
        ApiKey.SYNC_GROUP, 5, silent=True, group_id=group, generation_id=1, member_id=member,
        protocol_type="consumer", protocol_name="range",
        assignments=[{"member_id": member, "assignment": b"all"}],
    )  # fmt: skip
    return member
