"""The producer id of an idempotent producer without transactions: from a broker or the caller.

Source: KIP-98, KIP-360. Any broker serves InitProducerId without a transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas_client.errors import error_for
from barnabas_client.producer.idempotence import Identities, ProducerIdentity
from barnabas_client.producer.queues import PartitionQueue
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from barnabas_client.network.client import Client

_PRODUCE_VERSION_MAX: Final = 13
_INT_MAX: Final = (1 << 31) - 1


class IdempotentIdentity:
    """The sender's `IdentitySource` outside of transactions."""

    produce_version_max = _PRODUCE_VERSION_MAX
    needs_acquire = False
    failure = None

    def __init__(self, client: Client, identities: Identities) -> None:
        self._client = client
        self._identities = identities

    @property
    def is_ready(self) -> bool:
        """Whether there is a producer id."""
        return self._identities.current is not None

    async def acquire(self) -> None:
        """Get a producer id.

        Raises: RetriableError if no broker responded in time; else the error of the broker.
        """
        if not self._identities.is_fixed:
            self._identities.current = await new_identity(self._client)

    def sendable(self, queues: list[PartitionQueue]) -> list[PartitionQueue]:
        """All queues: there is no transaction to add them to."""
        return queues


async def new_identity(client: Client) -> ProducerIdentity:
    """A producer id that is not in use. Raises: as `acquire`."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_INT_MAX)
    response = await client.request_any(request)
    if response.error_code != ErrorCode.NONE:
        raise error_for(response.error_code, "no broker assigned a producer id")
    return ProducerIdentity(response.producer_id, response.producer_epoch)
