"""What a consumer sees of its membership in a group, whichever protocol the group speaks.

Not here: the protocols, `classic_membership.py` and `next_generation_membership.py`.

Source: CON-10, CON-11 of behaviour.md; KIP-848 for the second protocol.
Invariants: partitions are taken away only inside the program's own calls (`poll`, `leave`,
`close`): what was handed out has then been processed. Heartbeats go out in the background.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas_client.cluster.offsets import ConsumerGroupMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.group.automatic_membership import AutomaticMembership
from barnabas_client.consumer.group.classic_membership import ClassicMembership
from barnabas_client.consumer.group.next_generation_membership import NextGenerationMembership
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import ConfigurationError
from barnabas_client.network.client import Client


class GroupMembership(Protocol):
    """One consumer's place in its group."""

    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; ask at every step of the program's own poll.

        Asking counts as a sign of life: a program that does not for max_poll_interval_ms is taken
        for stuck, and its member leaves the group.
        """
        ...

    async def poll(self, deadline_ms: int) -> None:
        """Join, give up and take partitions, as far as that goes until the deadline.

        Returns early when nothing is left to do, or when it waits for the group while partitions
        are assigned that may be read meanwhile; the work goes on at the next call.

        Raises: what cannot be repaired by trying again, and the errors of the listener.
        """
        ...

    def metadata(self) -> ConsumerGroupMetadata:
        """Who commits; a generation of -1 while this is no member."""
        ...

    def request_rejoin(self, reason: str) -> None:
        """Make the group rebalance, in the next poll."""
        ...

    async def leave(self, timeout_ms: int) -> None:
        """Give up all partitions and leave; a static member just falls silent. For unsubscribe."""
        ...

    async def close(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Like `leave`, and end what runs in the background.

        `leave_group` decides whether the group is told (KIP-1092); by default dynamic members
        leave and static ones do not.
        """
        ...

    async def stop(self, goodbye_ms: int = 0) -> None:
        """End what runs in the background; a member that did not leave says so within the time.

        Nothing is committed and the listener is not called: for a `close` that was cancelled.
        """
        ...


def create_membership(
    client: Client,
    settings: ConsumerSettings,
    subscription: SubscriptionState,
    committer: OffsetCommitter,
    *,
    wake: Callable[[], None] | None = None,
) -> GroupMembership:
    """The membership that `group_protocol` names; `committer` commits in its name.

    `wake` is called when something happens in the background that `poll` should see to.
    Nothing is sent before the first `poll`.

    Raises: ConfigurationError without a group id or for a wrong assignor.
    """
    if settings.group_id is None:
        raise ConfigurationError("subscribe() shares partitions within a group: set group_id")

    def woken() -> None:
        if wake is not None:
            wake()

    def classic() -> ClassicMembership:
        return ClassicMembership(client, settings, subscription, committer, woken)

    def next_generation() -> NextGenerationMembership:
        return NextGenerationMembership(client, settings, subscription, committer, woken)

    if settings.group_protocol == "classic":
        return classic()
    if settings.group_protocol == "consumer":
        return next_generation()

    def is_managed() -> bool:
        return subscription.is_group_managed

    return AutomaticMembership(client, settings, is_managed, classic, next_generation)
