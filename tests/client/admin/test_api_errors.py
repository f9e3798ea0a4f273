"""Error codes become errors whose type says what to do and whose line says what is wrong."""

from barnabas_client.admin.api_errors import (
    ApiError,
    error_of,
    errors_of,
    exception_for,
    outcomes_of,
)
from barnabas_client.errors import (
    AlreadyExistsError,
    NotFoundError,
    RejectedError,
    UnsupportedError,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.delete_groups import DeletableGroupResult
from barnabas_protocol.messages.unregister_broker import UnregisterBrokerResponse


def test_a_refusal_without_words_is_worded_after_its_code() -> None:
    """Old brokers send codes only; the line must say what is wrong all the same."""
    error = exception_for("create topic a", ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION))
    assert str(error) == "create topic a: invalid topic (INVALID_TOPIC_EXCEPTION)"
    error = exception_for("create topic b", ApiError(9999))
    assert str(error) == "create topic b (unknown error code 9999)"


def test_what_an_administrator_names_and_is_not_there_is_not_found() -> None:
    """To a consumer these codes mean stale metadata or a lost membership."""
    for code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ):
        assert type(exception_for("x", ApiError(code))) is NotFoundError


def test_the_type_says_what_to_do_and_the_code_is_kept() -> None:
    """A code without a type of its own is a rejection: the cluster's state forbids it."""
    exists = exception_for("x", ApiError(ErrorCode.TOPIC_ALREADY_EXISTS))
    assert isinstance(exists, AlreadyExistsError)
    switched_off = exception_for("x", ApiError(ErrorCode.SECURITY_DISABLED))
    assert isinstance(switched_off, UnsupportedError)
    error = exception_for("x", ApiError(ErrorCode.NON_EMPTY_GROUP))
    assert type(error) is RejectedError
    assert error.code is ErrorCode.NON_EMPTY_GROUP


def test_a_part_of_an_answer_is_refused_if_it_has_a_code() -> None:
    """With the broker's own words where the API has a field for them."""
    assert error_of(DeletableGroupResult(group_id="g")) is None
    assert error_of(DeletableGroupResult(error_code=68)) == ApiError(68, None)
    whole = UnregisterBrokerResponse(error_code=29, error_message="no")
    assert errors_of("ab", whole) == {"a": ApiError(29, "no"), "b": ApiError(29, "no")}
    assert errors_of("ab", UnregisterBrokerResponse()) == {}


def test_final_answers_become_outcomes() -> None:
    """Each item's error begins with what was tried on it."""
    outcomes = outcomes_of("elect leader of", {"a": None, "b": ApiError(84, "it leads")})
    assert outcomes["a"].is_ok
    assert str(outcomes["b"].error) == "elect leader of b: it leads (ELECTION_NOT_NEEDED)"
