"""What a heartbeat changes and what the broker is told: pure.

Source: REG-6, REG-7, REG-9, STOP-5; KIP-631.

| the broker is | it wants | then |
|---|---|---|
| fenced | nothing, and it has caught up with its registration, and can be reached | unfenced |
| fenced | to shut down | told to |
| unfenced | to be fenced | fenced; and told to shut down if it wants that as well |
| unfenced | to shut down, and others can take over what it leads | shutting down |
| unfenced | to shut down, and nothing of it can move | fenced, told to shut down |
| shutting down | anything, and something of it can move or not all know of it | stays so |
| shutting down | anything else | fenced, told to shut down |

Invariant: a heartbeat that changes nothing writes no record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from barnabas_broker.controller import brokers, elections
from barnabas_broker.controller.elections import TopicConfigs
from barnabas_broker.metadata.image import BrokerImage, MetadataImage
from barnabas_broker.metadata.records import MetadataRecord


class _Next(Enum):
    """What becomes of the broker."""

    STAYS = "stays as it is"
    UNFENCED = "may lead"
    FENCED = "is fenced"
    SHUTTING_DOWN = "gives its leaderships away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a broker says of itself."""

    node_id: int
    broker_epoch: int
    metadata_offset: int  # of the newest metadata that it has applied
    wants_fence: bool = False
    wants_shut_down: bool = False
    offline_directories: Sequence[bytes] = ()
    cordoned_directories: Sequence[bytes] = ()  # that shall get no more replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """What the broker is told."""

    is_caught_up: bool
    is_fenced: bool
    is_shutting_down: bool
    should_shut_down: bool


def decide(
    image: MetadataImage,
    heartbeat: Heartbeat,
    configs: TopicConfigs,
    *,
    is_refused: bool,
    knows_shutdown: bool,
    cordoned: Collection[bytes] = (),
) -> tuple[list[MetadataRecord], HeartbeatReply]:
    """The records of a heartbeat and its answer.

    `is_refused`: the broker's address refuses connections, so it would only be fenced again.
    `cordoned`: the directories whose disks fill up, of all brokers.
    `knows_shutdown`: all live brokers have applied that this one shuts down.
    Raises: KafkaError 102, 77.
    """
    node_id = heartbeat.node_id
    broker = brokers.check_broker_epoch(image, node_id, heartbeat.broker_epoch)
    records = brokers.without_directories(
        image, node_id, heartbeat.offline_directories, configs, cordoned
    )
    if records:
        image = brokers.after(image, records)
    is_caught_up = heartbeat.metadata_offset >= broker.epoch
    move = _next(
        image, broker, heartbeat, is_ready=is_caught_up and not is_refused, is_known=knows_shutdown
    )
    match move:
        case _Next.STAYS:
            pass
        case _Next.UNFENCED:
            records += brokers.unfence(image, node_id, configs)
        case _Next.FENCED:
            records += brokers.fence(image, node_id, configs, cordoned)
        case _Next.SHUTTING_DOWN:
            records += brokers.begin_shutdown(image, node_id, configs, cordoned)
    is_fenced = move == _Next.FENCED or (broker.fenced and move == _Next.STAYS)
    return records, HeartbeatReply(
        is_caught_up=is_caught_up,
        is_fenced=is_fenced,
        is_shutting_down=move == _Next.SHUTTING_DOWN
        or (broker.is_shutting_down and not is_fenced and move == _Next.STAYS),
        should_shut_down=is_fenced and heartbeat.wants_shut_down,
    )


def _next(
    image: MetadataImage,
    broker: BrokerImage,
    heartbeat: Heartbeat,
    *,
    is_ready: bool,
    is_known: bool,
) -> _Next:
    if broker.fenced:
        wants_to_serve = not heartbeat.wants_fence and not heartbeat.wants_shut_down
        return _Next.UNFENCED if wants_to_serve and is_ready else _Next.STAYS
    if heartbeat.wants_fence:
        return _Next.FENCED
    if broker.is_shutting_down:
        if elections.movable_leaderships(image, broker.node_id) > 0 or not is_known:
            return _Next.STAYS
        return _Next.FENCED
    if not heartbeat.wants_shut_down:
        return _Next.STAYS
    if elections.movable_leaderships(image, broker.node_id) > 0:
        return _Next.SHUTTING_DOWN
    return _Next.FENCED
