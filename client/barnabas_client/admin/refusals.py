"""Error codes in answers, and the errors and outcomes that they become.

Pure. Which of them are repeated is the ledger's business (`ledger.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from barnabas_client.admin.outcome import K, Outcome, Outcomes
from barnabas_client.errors import BarnabasError, NotFoundError, error_for
from barnabas_protocol.errors import ErrorCode

T = TypeVar("T")

# To a producer or consumer these mean that it knows too little; an administrator named something
# that is not there.
_NOT_FOUND: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
)


class Refusal(NamedTuple):
    """An error code in an answer, with the broker's explanation if it gave one."""

    code: int
    message: str | None = None


def refusal_error(subject: str, refusal: Refusal) -> BarnabasError:
    """The error of a refusal; `subject` says what was tried ("create topic orders")."""
    try:
        code = ErrorCode(refusal.code)
    except ValueError:
        return error_for(refusal.code, subject)
    reason = refusal.message or code.name.removesuffix("_EXCEPTION").lower().replace("_", " ")
    text = f"{subject}: {reason}"
    if code in _NOT_FOUND:
        return NotFoundError(text, code)
    return error_for(code, text)


def refused(answer: Any) -> Refusal | None:
    """The refusal in a part of an answer that has an error code; None if that says all is well."""
    code = answer.error_code
    return Refusal(code, getattr(answer, "error_message", None)) if code else None


def all_refused(keys: Iterable[K], answer: Any) -> dict[K, Refusal]:
    """The error code of a whole answer, for each of its items; empty if that says all is well."""
    refusal = refused(answer)
    return {} if refusal is None else dict.fromkeys(keys, refusal)


def outcome_of(subject: str, answer: T | Refusal) -> Outcome[T]:
    """The outcome of an item whose answer is final."""
    if isinstance(answer, Refusal):
        return Outcome.failed(refusal_error(subject, answer))
    return Outcome.of(answer)


def outcomes_of(action: str, answers: Mapping[K, T | Refusal]) -> Outcomes[K, T]:
    """The outcomes of items whose answers are final."""
    return Outcomes({key: outcome_of(f"{action} {key}", one) for key, one in answers.items()})
