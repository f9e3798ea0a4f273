"""ListTransactions (66), versions 0 to 2: the transactional ids that this broker coordinates.

v1: those that have been open for some time. v2: a pattern for the whole id. Filters must all
match. Source: TXN-10.
"""

from __future__ import annotations

from typing import Any

from barnabas_broker.config.bounded_patterns import STEPS_PER_TURN, compile_bounded, steps_of
from barnabas_broker.coordinator.transaction.state import Transaction, TransactionState
from barnabas_broker.handlers.authorization import may
from barnabas_broker.handlers.request_limits import encode_apart
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas_protocol.messages.list_transactions import TransactionState as ListedTransaction

PATTERN_LENGTH_MAX = 1000
PROGRAM_BYTES_MAX = 1 << 17
STEPS_EACH = STEPS_PER_TURN // SLICE
"""What a transactional id costs besides its pattern."""
# States that have a name and are never stored: they may be asked for, and nothing has them.
_OTHER_NAMES = frozenset(("Dead", "PrepareEpochFence"))
_BY_NAME = {state.kafka_name: state for state in TransactionState}


async def handle(
    services: Services, in_flight: InFlightRequest, request: ListTransactionsRequest
) -> bytes:
    """List what passes all filters and the client may see. Raises: KafkaError 14, 15, 128."""
    pattern = _pattern(request.transactional_id_pattern)
    names = set(request.state_filters)
    states = {_BY_NAME[name] for name in names if name in _BY_NAME}
    producer_ids = set(request.producer_id_filters)
    now_ms, open_ms = services.clock.wall_ms(), request.duration_filter

    def passes(known: Transaction) -> bool:
        return (
            (not names or known.state in states)
            and (not producer_ids or known.producer_id in producer_ids)
            and (open_ms < 0 or _has_been_open(known, now_ms, open_ms))
            and (pattern is None or pattern.fullmatch(known.transactional_id) is not None)
            and may(
                services,
                in_flight,
                AclOperation.DESCRIBE,
                AclResourceType.TRANSACTIONAL_ID,
                known.transactional_id,
                is_filter=True,
            )
        )

    response = ListTransactionsResponse(
        unknown_state_filters=sorted(names - _BY_NAME.keys() - _OTHER_NAMES)
    )
    steps = 0
    for known in list(services.transactions.transactions()):
        steps += STEPS_EACH
        if pattern is not None:
            steps += steps_of(pattern, known.transactional_id)
        if steps > STEPS_PER_TURN:
            await services.heavy_work.pause_of(in_flight)
            steps = 0
        if passes(known):
            response.transaction_states.append(
                ListedTransaction(
                    transactional_id=known.transactional_id,
                    producer_id=known.producer_id,
                    transaction_state=known.state.kafka_name,
                )
            )
    return await encode_apart(services.heavy_work, in_flight, response)


def _has_been_open(known: Transaction, now_ms: int, open_ms: int) -> bool:
    """Whether it began so long ago; one that has not begun yet counts, as in Apache Kafka."""
    return now_ms - known.started_ms > open_ms


def _pattern(text: str | None) -> Any:
    """The compiled pattern, None for none. It is the client's, so matching takes linear time."""
    if not text:
        return None
    try:
        if len(text) > PATTERN_LENGTH_MAX:
            raise ValueError(f"{len(text)} characters, {PATTERN_LENGTH_MAX} at most")
        return compile_bounded(text, PROGRAM_BYTES_MAX)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None


def failed(request: ListTransactionsRequest, error: KafkaError) -> ListTransactionsResponse:
    """The error alone."""
    return ListTransactionsResponse(error_code=error.code)
