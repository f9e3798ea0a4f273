"""Session ids and epochs of Fetch requests (KIP-227)."""

import pytest

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.fetch_metadata import EPOCH_MAX, FetchMetadata, next_epoch


def test_the_first_request_is_full_and_the_next_ones_count_from_one() -> None:
    metadata = FetchMetadata()
    assert metadata.is_full
    metadata = metadata.on_full_response(7)
    assert (metadata, metadata.is_full) == ((7, 1), False)
    assert metadata.next_incremental() == (7, 2)


def test_a_broker_that_creates_no_session_gets_full_requests() -> None:
    assert FetchMetadata(7, 0).on_full_response(0) == (0, 0)


def test_epochs_wrap_to_one_because_zero_means_full() -> None:
    assert next_epoch(EPOCH_MAX) == 1
    assert FetchMetadata(7, EPOCH_MAX).next_incremental() == (7, 1)


def test_a_new_session_names_the_old_one_so_that_the_broker_ends_it() -> None:
    assert FetchMetadata(7, 5).close_existing_attempt_new() == (7, 0)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, (0, 0)),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, (7, 0)),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, (7, 0)),
    ],
)
def test_an_id_that_the_broker_does_not_know_is_not_named_again(
    code: ErrorCode, expected: tuple[int, int]
) -> None:
    """It may be another client's session by now."""
    assert FetchMetadata(7, 5).on_error(code) == expected


def test_only_a_session_that_exists_is_ended() -> None:
    assert FetchMetadata().final() is None
    assert FetchMetadata(7, 5).final() == (7, -1)
