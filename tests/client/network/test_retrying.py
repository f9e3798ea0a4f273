"""Repeating a call on errors that may pass."""

import asyncio

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.errors import StaleMetadataError, TimedOutError, UsageError
from barnabas_client.network import Client, retrying


def client() -> Client:
    values = {"bootstrap_servers": "a:1", "retry_backoff_ms": 1, "retry_backoff_max_ms": 2}
    return Client(ClientSettings.create(values))


def test_a_call_is_repeated_until_it_succeeds() -> None:
    """Only retriable errors are."""
    calls: list[int] = []

    async def attempt() -> str:
        calls.append(1)
        if len(calls) < 4:
            raise StaleMetadataError("not yet")
        return "done"

    assert asyncio.run(retrying(client(), attempt, timeout_ms=9000)) == "done"
    assert len(calls) == 4


def test_the_last_error_is_raised_at_the_deadline() -> None:
    """With what it says, not merely that time is over."""

    async def attempt() -> None:
        raise StaleMetadataError("never")

    with pytest.raises(StaleMetadataError, match="never"):
        asyncio.run(retrying(client(), attempt, timeout_ms=10))


def test_what_waiting_does_not_cure_is_raised_at_once() -> None:
    """The type says so."""
    calls: list[int] = []

    async def attempt() -> None:
        calls.append(1)
        raise UsageError("wrong")

    with pytest.raises(UsageError):
        asyncio.run(retrying(client(), attempt, timeout_ms=9000))
    assert len(calls) == 1


def test_an_attempt_that_hangs_ends_with_the_time() -> None:
    """A broker that is silent held every call up for the whole request timeout."""

    async def attempt() -> None:
        if attempts := len(calls):
            await asyncio.Event().wait()
        calls.append(attempts)
        raise StaleMetadataError("not yet")

    calls: list[int]
    for calls in ([], [1]):
        kind = TimedOutError if calls else StaleMetadataError
        with pytest.raises(kind):
            asyncio.run(retrying(client(), attempt, timeout_ms=30))
