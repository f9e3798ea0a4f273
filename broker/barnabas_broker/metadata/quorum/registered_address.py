"""Where a node is reached by brokers, by what it registered before.

While nobody leads yet, the metadata log is all that a new leader knows of the others, and it may be
out of date: it cannot be written anew before a majority has been heard.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from barnabas_broker.arbiter.arbiter import Leader
from barnabas_broker.metadata.image import BrokerImage


@dataclass(frozen=True, slots=True)
class OwnListeners:
    """Those of this node: all names, the name of that for brokers, and where that is reached."""

    names: Set[str]
    name: str
    address: Leader


def registered_address(
    broker: BrokerImage, brokers: Iterable[BrokerImage], own: OwnListeners
) -> tuple[str, int] | None:
    """The address of one of the registered brokers, None where it has no listener at all.

    A broker of an earlier release may have no listener for brokers alone: it takes their requests
    on its first one. Where it had one that this node does not know, all have changed theirs at
    once, as those of a Broker that was deleted and declared anew, secure or plain: its host has
    stayed, and the port is this node's own. Not if somebody else has that host, who would get what
    is meant for it.
    """
    listener = broker.listeners.get(own.name)
    if listener is not None:
        return listener.host, listener.port
    first = next(iter(broker.listeners.values()), None)
    if first is None:
        return None
    others = (one for one in brokers if one.node_id not in (broker.node_id, own.address.node_id))
    taken = {one.host for other in others for one in other.listeners.values()}
    has_own_host = first.host not in {own.address.host, *taken}
    if has_own_host and not broker.listeners.keys() <= own.names:
        return first.host, own.address.port
    return first.host, first.port
