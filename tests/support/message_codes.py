"""The error codes in a message, wherever they are."""

from collections.abc import Iterator
from typing import Any

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.schema import Message

REFUSALS = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)


def codes_of(message: Any, path: str = "") -> Iterator[tuple[str, ErrorCode]]:
    """Each error code that is not NONE, with the names of the fields that lead to it."""
    for field in message.__fields__:
        value = getattr(message, field.name, None)
        place = f"{path}.{field.name}" if path else field.name
        if field.name.endswith("error_code") and value:
            yield place, ErrorCode(value)
        elif isinstance(value, Message):
            yield from codes_of(value, place)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, Message):
                    yield from codes_of(element, place)


def refusals_of(message: Any) -> set[tuple[str, ErrorCode]]:
    """Where a response says that a right is missing, and which."""
    return {(place, code) for place, code in codes_of(message) if code in REFUSALS}
