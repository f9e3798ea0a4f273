"""The quorum of the controllers: DescribeQuorum (55), AddRaftVoter (80), RemoveRaftVoter (81)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.cluster import QuorumDescription, RaftEndpoint
from barnabas_protocol.ids import Uuid


class Quorum:
    """`admin.quorum`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        """The voters and observers of the metadata log. Raises: what went wrong."""
        raise NotImplementedError

    async def add_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        endpoints: Iterable[RaftEndpoint],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Make a controller a voter. Raises: what went wrong."""
        raise NotImplementedError

    async def remove_voter(
        self, voter_id: int, directory_id: Uuid, *, timeout_ms: int | None = None
    ) -> None:
        """Take a voter out. Raises: what went wrong."""
        raise NotImplementedError
