"""`admin.tokens`: Create-, Renew-, Expire- and DescribeDelegationToken (38-41), of any broker.

A token may only be created over a connection that logged in by other means than a token (KIP-48).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from barnabas_client.admin.api_errors import error_of
from barnabas_client.admin.lookup_strategies import AnyBrokerStrategy
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext, nameless
from barnabas_client.admin.values.tokens import DelegationToken, Principal
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from barnabas_protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas_protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas_protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

# The first version that takes an owner and names who context.
_OWNER_VERSION: Final = 3
# Stands for the broker's own limit in periods and lifetimes, and for "now" when expiring.
_BROKER_DEFAULT_MS: Final = -1


class Tokens:
    """What can be done about delegation tokens."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def create(
        self,
        *,
        owner: Principal | None = None,
        renewers: Iterable[Principal] = (),
        max_lifetime_ms: int = _BROKER_DEFAULT_MS,
        timeout_ms: int | None = None,
    ) -> DelegationToken:
        """A new token, of oneself if no owner is named; the owner may always renew it.

        Raises: UnsupportedError if the broker has tokens switched off; RejectedError if the
        connection did not log in; TimedOutError, or what the broker says.
        """
        named = tuple(renewers)
        call = Call[None, DelegationToken](
            action="create a delegation token",
            api=ApiKey.CREATE_DELEGATION_TOKEN,
            to=AnyBrokerStrategy(),
            build=lambda context: CreateDelegationTokenRequest(
                owner_principal_type=None if owner is None else owner.type,
                owner_principal_name=None if owner is None else owner.name,
                renewers=[
                    CreatableRenewers(principal_type=one.type, principal_name=one.name)
                    for one in named
                ],
                max_lifetime_ms=max_lifetime_ms,
            ),
            read=lambda response, context: {
                None: error_of(response) or _created(response, context, named)
            },
            name=nameless,
            is_change=True,
            version_min=1 if owner is None else _OWNER_VERSION,
        )
        return await self._routing.one(call, timeout_ms)

    async def renew(
        self,
        hmac: bytes,
        *,
        renew_period_ms: int = _BROKER_DEFAULT_MS,
        timeout_ms: int | None = None,
    ) -> int:
        """Let a token live longer; returns when it expires, in milliseconds since 1970.

        Raises: NotFoundError, TimedOutError, or what the broker says.
        """
        call = Call[None, int](
            action="renew a delegation token",
            api=ApiKey.RENEW_DELEGATION_TOKEN,
            to=AnyBrokerStrategy(),
            build=lambda context: RenewDelegationTokenRequest(
                hmac=hmac, renew_period_ms=renew_period_ms
            ),
            read=lambda response, context: {
                None: error_of(response) or response.expiry_timestamp_ms
            },
            name=nameless,
            is_change=True,
        )
        return await self._routing.one(call, timeout_ms)

    async def expire(
        self,
        hmac: bytes,
        *,
        expiry_period_ms: int = _BROKER_DEFAULT_MS,
        timeout_ms: int | None = None,
    ) -> int:
        """Let a token expire after a period, at once by default; returns when, as `renew` does.

        Raises: NotFoundError, TimedOutError, or what the broker says.
        """
        call = Call[None, int](
            action="expire a delegation token",
            api=ApiKey.EXPIRE_DELEGATION_TOKEN,
            to=AnyBrokerStrategy(),
            build=lambda context: ExpireDelegationTokenRequest(
                hmac=hmac, expiry_time_period_ms=expiry_period_ms
            ),
            read=lambda response, context: {
                None: error_of(response) or response.expiry_timestamp_ms
            },
            name=nameless,
            is_change=True,
        )
        return await self._routing.one(call, timeout_ms)

    async def list(
        self, owners: Iterable[Principal] | None = None, *, timeout_ms: int | None = None
    ) -> tuple[DelegationToken, ...]:
        """The tokens of owners, of all if none are named, as far as one may see them.

        Raises: TimedOutError, or what the broker says.
        """
        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name)
                for one in owners
            ]
        call = Call[None, tuple[DelegationToken, ...]](
            action="list delegation tokens",
            api=ApiKey.DESCRIBE_DELEGATION_TOKEN,
            to=AnyBrokerStrategy(),
            build=lambda context: DescribeDelegationTokenRequest(owners=wanted),
            read=lambda response, context: {
                None: error_of(response) or tuple(_listed(one, context) for one in response.tokens)
            },
            name=nameless,
        )
        return await self._routing.one(call, timeout_ms)


def _created(
    response: Any, context: RequestContext[None], renewers: tuple[Principal, ...]
) -> DelegationToken:
    return DelegationToken(
        token_id=response.token_id,
        hmac=bytes(response.hmac),
        owner=Principal(response.principal_type, response.principal_name),
        requester=_requester(response, context),
        issued_at_ms=response.issue_timestamp_ms,
        expires_at_ms=response.expiry_timestamp_ms,
        max_lifetime_ends_at_ms=response.max_timestamp_ms,
        renewers=renewers,
    )


def _listed(one: Any, context: RequestContext[None]) -> DelegationToken:
    return DelegationToken(
        token_id=one.token_id,
        hmac=bytes(one.hmac),
        owner=Principal(one.principal_type, one.principal_name),
        requester=_requester(one, context),
        issued_at_ms=one.issue_timestamp,
        expires_at_ms=one.expiry_timestamp,
        max_lifetime_ends_at_ms=one.max_timestamp,
        renewers=tuple(
            Principal(renewer.principal_type, renewer.principal_name) for renewer in one.renewers
        ),
    )


def _requester(one: Any, context: RequestContext[None]) -> Principal | None:
    if context.version < _OWNER_VERSION:
        return None
    return Principal(one.token_requester_principal_type, one.token_requester_principal_name)
