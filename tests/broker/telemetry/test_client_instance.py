"""When an instance of a client may ask and push, by the rules of Kafka's brokers."""

from collections.abc import Callable

import pytest

from barnabas_broker.telemetry.client_instance import ClientInstance, Requested
from barnabas_protocol.errors import ErrorCode, KafkaError

INTERVAL_MS = 1000
ID = 7


def instance() -> ClientInstance:
    return ClientInstance(
        id=b"i" * 16,
        attributes={"client_instance_id": "i"},
        requested=Requested(metrics=("*",), push_interval_ms=INTERVAL_MS),
        subscription_id=ID,
        subscriptions_version=1,
    )


def push(client: ClientInstance, now_ms: int, id_: int = ID, *, last: bool = False) -> None:
    client.push(now_ms, id_, is_terminating=last)


def refused(code: ErrorCode, call: Callable[..., None], *arguments: object) -> None:
    with pytest.raises(KafkaError) as error:
        call(*arguments)
    assert error.value.code == code


def test_a_client_asks_and_pushes_once_an_interval() -> None:
    """TEL-3: too early is 89, and does not put off what is in time."""
    client = instance()
    client.get(0)
    refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, client.get, INTERVAL_MS - 1)
    push(client, 300)
    refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, push, client, 300 + INTERVAL_MS - 1)
    push(client, 300 + INTERVAL_MS)
    refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, client.get, 300 + INTERVAL_MS + 1)
    client.get(300 + 2 * INTERVAL_MS)


def test_the_push_after_a_request_for_subscriptions_is_in_time() -> None:
    """TEL-3: clients spread their first pushes over half an interval."""
    client = instance()
    push(client, 0)
    client.get(INTERVAL_MS)
    push(client, INTERVAL_MS + 1)
    refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, push, client, INTERVAL_MS + 2)


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
)
def test_a_client_that_has_to_ask_anew_may_do_so_at_once(code: ErrorCode) -> None:
    """TEL-3: once, for the error has been told."""
    client = instance()
    client.get(0)
    client.last_error = code
    client.get(1)
    refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, client.get, 2)


def test_other_errors_do_not_let_it_ask() -> None:
    """TEL-3."""
    client = instance()
    client.get(0)
    client.last_error = ErrorCode.TELEMETRY_TOO_LARGE
    refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, client.get, 1)


def test_the_last_push_is_in_time_and_the_last() -> None:
    """TEL-3, TEL-4: nothing is taken after it, in time or not."""
    client = instance()
    push(client, 0)
    client.push(1, ID, is_terminating=True)
    refused(ErrorCode.INVALID_REQUEST, push, client, 2 * INTERVAL_MS)
    refused(ErrorCode.INVALID_REQUEST, push, client, 4 * INTERVAL_MS)


def test_a_push_for_another_subscription_is_refused() -> None:
    """TEL-4: and it was a push, so that the next one waits."""
    client = instance()
    refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, push, client, 0, ID + 1)
    refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, push, client, 1)


def test_other_subscriptions_may_be_asked_for_and_pushed_at_once() -> None:
    """TEL-3."""
    client = instance()
    client.get(0)
    push(client, 1)
    client.request(Requested(metrics=("a",), push_interval_ms=INTERVAL_MS), 8, 2)
    client.get(2)
    push(client, 3, 8)
