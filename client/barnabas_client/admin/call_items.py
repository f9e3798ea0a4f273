"""The items of a call: which have a final outcome, and which are to be requested again.

Pure: no loop, no clock; `routing.py` calls it with the result of each attempt.

Invariants: every item ends with exactly one outcome; an item is repeated only if nothing was done
for it as far as is known, or if repeating does no harm beyond an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Generic, TypeVar

from barnabas_client.admin.api_errors import ApiError, exception_for
from barnabas_client.admin.outcome import K, Outcome, Outcomes
from barnabas_client.errors import (
    AlreadyExistsError,
    BarnabasError,
    DisconnectedError,
    NotFoundError,
    RetriableError,
    TimedOutError,
)
from barnabas_protocol.errors import RETRIABLE, ErrorCode

T = TypeVar("T")

# Retriable by Kafka's table and yet a response to an administrator: what is named does not exist,
# the election cannot be held, the disk failed, or the broker gave up waiting for a change (and may
# have done its part).
_FINAL: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
_RETRIED: Final = RETRIABLE - _FINAL

# A topic that was created a moment ago may be unknown to the broker that is context.
PATIENCE_ATTEMPTS: Final = 4


class CallItems(Generic[K, T]):
    """The items of one call: pending ones, and the outcomes of the others."""

    def __init__(
        self,
        keys: Iterable[K],
        subject: Callable[[K], str],
        *,
        is_change: bool = False,
        is_repeatable: bool = True,
        patient: Collection[int] = (),
    ) -> None:
        """Take the items; `subject` words one for an error.

        One that is not repeatable is not requested again where the response was lost.
        `patient` codes are repeated too, but `PATIENCE_ATTEMPTS` times at most.
        """
        self._outcomes: dict[K, Outcome[T] | None] = dict.fromkeys(keys)
        self._subject = subject
        self._is_change = is_change
        self._is_repeatable = is_repeatable
        self._patient = patient
        self._patience: dict[K, int] = {}
        self._reasons: dict[K, BarnabasError] = {}
        self._uncertain: set[K] = set()

    @property
    def pending(self) -> tuple[K, ...]:
        """The items that have no outcome yet, in the order of the call."""
        return tuple(key for key, outcome in self._outcomes.items() if outcome is None)

    def on_response(self, keys: Iterable[K], responses: Mapping[K, T | ApiError]) -> frozenset[int]:
        """Take the response to a request about these items; return the codes that are repeated.

        An item that the response does not contain was not carried out, which is an error.
        """
        repeated = set()
        for key in keys:
            if key not in responses:
                missing = ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "the response does not contain it"
                )
                self._settle_error(key, exception_for(self._subject(key), missing))
                continue
            response = responses[key]
            if not isinstance(response, ApiError):
                self._outcomes[key] = Outcome.of(response)
            elif self._repeats(key, response.code):
                self._reasons[key] = exception_for(self._subject(key), response)
                repeated.add(response.code)
            else:
                self._settle_error(key, exception_for(self._subject(key), response))
        return frozenset(repeated)

    def on_failure(self, keys: Iterable[K], error: BarnabasError, *, was_sent: bool) -> None:
        """These items got no response, or the request could not be sent."""
        for key in keys:
            if not isinstance(error, RetriableError):
                self._settle_error(key, error)
                continue
            is_uncertain = was_sent and isinstance(error, (DisconnectedError, TimedOutError))
            if is_uncertain and not self._is_repeatable:
                text = "it may have been carried out: look, then repeat it"
                error = type(error)(f"{self._subject(key)}: {error.message}; {text}", error.code)
                self._outcomes[key] = Outcome.failed(error)
                continue
            self._reasons[key] = error
            if is_uncertain:
                self._uncertain.add(key)

    def expire(self) -> None:
        """The time is over: all pending items have failed."""
        for key in self.pending:
            text = f"{self._subject(key)}: the time is over"
            reason = self._reasons.get(key)
            if reason is not None:
                text += f"; the last attempt: {reason}"
            if self._is_change and key in self._uncertain:
                text += "; it may have been carried out"
            error = TimedOutError(text)
            error.__cause__ = reason
            self._outcomes[key] = Outcome.failed(error)

    def outcomes(self) -> Outcomes[K, T]:
        """The outcome of every item; none may be pending."""
        settled = {key: outcome for key, outcome in self._outcomes.items() if outcome is not None}
        assert len(settled) == len(self._outcomes)
        return Outcomes(settled)

    def _repeats(self, key: K, code: int) -> bool:
        if code in _RETRIED or (code == ErrorCode.REQUEST_TIMED_OUT and not self._is_change):
            return True
        if code not in self._patient:
            return False
        self._patience[key] = self._patience.get(key, 0) + 1
        return self._patience[key] < PATIENCE_ATTEMPTS

    def _settle_error(self, key: K, error: BarnabasError) -> None:
        if self._is_change and isinstance(error, TimedOutError):
            error.message += "; it may still be carried out"
        elif key in self._uncertain and isinstance(error, (AlreadyExistsError, NotFoundError)):
            error.message += "; an earlier attempt, whose response was lost, may have done it"
        self._outcomes[key] = Outcome.failed(error)
