"""Error codes in responses, and the errors and outcomes that they become.

Pure. Which of them are repeated is the ledger's business (`call_items.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from barnabas_client.admin.outcome import K, Outcome, Outcomes
from barnabas_client.errors import BarnabasError, NotFoundError, error_for
from barnabas_protocol.errors import ErrorCode

T = TypeVar("T")

# For producers and consumers these are retriable: their metadata may be stale. An administrator has
# named something that does not exist.
_NOT_FOUND: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
)


class ApiError(NamedTuple):
    """An error code in a response, with the broker's explanation if it gave one."""

    code: int
    message: str | None = None


def exception_for(subject: str, api_error: ApiError) -> BarnabasError:
    """The exception for an ApiError; `subject` is what was tried ("create topic orders")."""
    try:
        code = ErrorCode(api_error.code)
    except ValueError:
        return error_for(api_error.code, subject)
    reason = api_error.message or code.name.removesuffix("_EXCEPTION").lower().replace("_", " ")
    text = f"{subject}: {reason}"
    if code in _NOT_FOUND:
        return NotFoundError(text, code)
    return error_for(code, text)


def error_of(response: Any) -> ApiError | None:
    """The error in a part of a response that has an error code; None if there is none."""
    code = response.error_code
    return ApiError(code, getattr(response, "error_message", None)) if code else None


def errors_of(keys: Iterable[K], response: Any) -> dict[K, ApiError]:
    """The error of a whole response, for each of its items; empty if there is none."""
    api_error = error_of(response)
    return {} if api_error is None else dict.fromkeys(keys, api_error)


def outcome_of(subject: str, response: T | ApiError) -> Outcome[T]:
    """The outcome of an item whose response is final."""
    if isinstance(response, ApiError):
        return Outcome.failed(exception_for(subject, response))
    return Outcome.of(response)


def outcomes_of(action: str, responses: Mapping[K, T | ApiError]) -> Outcomes[K, T]:
    """The outcomes of items whose responses are final."""
    return Outcomes({key: outcome_of(f"{action} {key}", one) for key, one in responses.items()})
