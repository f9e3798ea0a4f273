"""The hierarchy of errors: the type says what the caller should do."""

import pytest

from barnabas_client import errors
from barnabas_client.errors import (
    AuthenticationError,
    AuthorizationError,
    BarnabasError,
    ClientBrokenError,
    CoordinatorMovedError,
    FencedError,
    OffsetOutOfRangeError,
    RejectedError,
    RetriableError,
    StaleMetadataError,
    TimedOutError,
    UnsupportedError,
    UsageError,
    error_for,
)
from barnabas_protocol.errors import RETRIABLE, ErrorCode


@pytest.mark.parametrize("code", [code for code in ErrorCode if code], ids=lambda code: code.name)
def test_every_code_of_the_table_becomes_an_error(code: ErrorCode) -> None:
    """Each carries its code and one line of text."""
    error = error_for(code, "tried it")
    assert isinstance(error, BarnabasError)
    assert error.code is code
    assert str(error) == f"tried it ({code.name})"
    assert str(error_for(code)) == code.name


@pytest.mark.parametrize("code", sorted(RETRIABLE), ids=lambda code: code.name)
def test_what_kafka_calls_retriable_is_never_final(code: ErrorCode) -> None:
    """Section 15 of the protocol notes: what may pass is tried again."""
    assert isinstance(error_for(code), RetriableError)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, StaleMetadataError),
        (ErrorCode.NOT_COORDINATOR, CoordinatorMovedError),
        (ErrorCode.REQUEST_TIMED_OUT, TimedOutError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, AuthenticationError),
        (ErrorCode.UNSUPPORTED_VERSION, UnsupportedError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, UsageError),
        (ErrorCode.POLICY_VIOLATION, RejectedError),
        (ErrorCode.PRODUCER_FENCED, FencedError),
        (ErrorCode.OFFSET_OUT_OF_RANGE, OffsetOutOfRangeError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ClientBrokenError),
    ],
)
def test_the_type_says_what_to_do(code: ErrorCode, kind: type[BarnabasError]) -> None:
    """Retry, change the call, get the rights, close, report."""
    assert isinstance(error_for(code), kind)


def test_a_code_of_the_future_is_a_refusal() -> None:
    """Newer brokers know more codes; none of them may look like success."""
    error = error_for(9999)
    assert isinstance(error, RejectedError)
    assert "9999" in str(error)


def test_all_errors_have_one_root() -> None:
    """`except BarnabasError` catches all that the client raises by itself."""
    for name, kind in vars(errors).items():
        if name.endswith("Error") and isinstance(kind, type) and kind.__module__ == errors.__name__:
            assert issubclass(kind, BarnabasError)
            assert kind.__doc__
