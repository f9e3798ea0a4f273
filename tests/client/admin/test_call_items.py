"""The ledger of a call's items: pure, told of attempts, it knows what is left to do."""

from barnabas_client.admin.api_errors import ApiError
from barnabas_client.admin.call_items import PATIENCE_ATTEMPTS, CallItems
from barnabas_client.errors import (
    AlreadyExistsError,
    BrokerUnreachableError,
    DisconnectedError,
    NotFoundError,
    TimedOutError,
    UnsupportedError,
)
from barnabas_protocol.errors import ErrorCode


def items(*keys: str, is_change: bool = True, is_repeatable: bool = True) -> CallItems[str, int]:
    return CallItems(
        keys,
        lambda key: f"create topic {key}",
        is_change=is_change,
        is_repeatable=is_repeatable,
        patient=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    )


def test_each_item_is_settled_by_its_own_answer() -> None:
    """A retriable api_error leaves its item pending and no other (item by item, not by request)."""
    book = items("a", "b", "c")
    repeated = book.on_response(
        "abc",
        {
            "a": 1,
            "b": ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"),
            "c": ApiError(ErrorCode.NOT_CONTROLLER),
        },
    )
    assert repeated == {ErrorCode.NOT_CONTROLLER}
    assert book.pending == ("c",)
    assert not book.on_response(["c"], {"c": 3})
    outcomes = book.outcomes()
    assert outcomes.successes == {"a": 1, "c": 3}
    error = outcomes["b"].error
    assert isinstance(error, AlreadyExistsError)
    assert str(error) == "create topic b: it is there (TOPIC_ALREADY_EXISTS)"


def test_an_unknown_topic_is_looked_for_a_few_times_only() -> None:
    """A topic made a moment ago may be unknown yet; one that is not there must not cost long."""
    book = items("a")
    for _ in range(PATIENCE_ATTEMPTS):
        assert book.pending == ("a",)
        book.on_response(["a"], {"a": ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    assert isinstance(book.outcomes()["a"].error, NotFoundError)


def test_an_item_that_the_answer_leaves_out_is_an_error() -> None:
    """Else a broker's bug would look like success."""
    book = items("a", "b")
    book.on_response("ab", {"a": 1})
    assert "does not contain" in str(book.outcomes()["b"].error)


def test_when_the_time_is_over_the_error_says_what_may_have_been_done() -> None:
    """Only a change whose answer was lost may have been carried out."""
    book = items("lost", "refused", "unreachable", "unasked")
    book.on_failure(["lost"], DisconnectedError("gone"), was_sent=True)
    book.on_response(["refused"], {"refused": ApiError(ErrorCode.NOT_CONTROLLER)})
    book.on_failure(["unreachable"], BrokerUnreachableError("no route"), was_sent=True)
    book.expire()
    errors = book.outcomes().errors
    assert all(isinstance(error, TimedOutError) for error in errors.values())
    assert str(errors["lost"]).endswith("the last attempt: gone; it may have been carried out")
    assert "may have been" not in str(errors["refused"])
    assert "NOT_CONTROLLER" in str(errors["refused"])
    assert "may have been" not in str(errors["unreachable"])
    assert str(errors["unasked"]) == "create topic unasked: the time is over"


def test_a_request_that_was_never_sent_cannot_have_been_carried_out() -> None:
    """The connection was lost while looking for the place to ask."""
    book = items("a")
    book.on_failure(["a"], DisconnectedError("gone"), was_sent=False)
    book.expire()
    assert "carried out" not in str(book.outcomes()["a"].error)


def test_reading_calls_never_claim_to_have_been_carried_out() -> None:
    """There is nothing that a look at the cluster could have left behind."""
    book = items("a", is_change=False)
    book.on_failure(["a"], DisconnectedError("gone"), was_sent=True)
    book.expire()
    assert "carried out" not in str(book.outcomes()["a"].error)


def test_a_repeated_change_that_finds_itself_done_says_so() -> None:
    """The answer to the first attempt was lost: "exists already" may be our own doing."""
    book = items("a")
    book.on_failure(["a"], TimedOutError("no answer"), was_sent=True)
    book.on_response(["a"], {"a": ApiError(ErrorCode.TOPIC_ALREADY_EXISTS)})
    error = book.outcomes()["a"].error
    assert isinstance(error, AlreadyExistsError)
    assert "an earlier attempt" in str(error)


def test_what_no_retry_cures_settles_all_items_of_the_request() -> None:
    """A broker without the API will not have it in a second either."""
    book = items("a", "b")
    book.on_failure(["a", "b"], UnsupportedError("no such API"), was_sent=True)
    assert not book.pending
    assert all(isinstance(one, UnsupportedError) for one in book.outcomes().errors.values())


def test_what_names_another_thing_by_then_is_not_repeated() -> None:
    """The response is lost, somebody makes the topic anew: a second deletion would take that."""
    book = items("a", is_repeatable=False)
    book.on_failure(["a"], BrokerUnreachableError("no route"), was_sent=True)
    assert book.pending == ("a",), "what was not sent cannot have been carried out"
    book.on_failure(["a"], DisconnectedError("gone"), was_sent=True)
    error = book.outcomes()["a"].error
    assert isinstance(error, DisconnectedError)
    assert str(error) == "create topic a: gone; it may have been carried out: look, then repeat it"


def test_a_broker_that_ran_out_of_time_is_not_asked_again() -> None:
    """REQUEST_TIMED_OUT on a change means that it is under way: a repetition would collide."""
    book = items("a")
    book.on_response(["a"], {"a": ApiError(ErrorCode.REQUEST_TIMED_OUT)})
    assert isinstance(book.outcomes()["a"].error, TimedOutError)
    assert "may still be carried out" in str(book.outcomes()["a"].error)
    looking = items("a", is_change=False)
    looking.on_response(["a"], {"a": ApiError(ErrorCode.REQUEST_TIMED_OUT)})
    assert looking.pending == ("a",), "to look again does no harm"
