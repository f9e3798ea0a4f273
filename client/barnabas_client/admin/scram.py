"""`admin.scram`: DescribeUserScramCredentials (50) and AlterUserScramCredentials (51).

The salted password is computed here (RFC 5802), so the password itself never travels.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas_client.admin.api_errors import error_of, outcomes_of
from barnabas_client.admin.lookup_strategies import AnyBrokerStrategy, ControllerStrategy
from barnabas_client.admin.outcome import Outcome, Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext, nameless
from barnabas_client.admin.values.scram import (
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from barnabas_client.errors import UsageError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

_HASHES: Final = {ScramMechanism.SHA_256: "sha256", ScramMechanism.SHA_512: "sha512"}
_SALT_BYTES: Final = 24


class Scram:
    """What can be done about credentials for SASL/SCRAM."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> Outcomes[str, tuple[ScramCredential, ...]]:
        """Which credentials users have; of all users that have one, if none are named.

        A named user without credentials is a NotFoundError. Passwords cannot be read.
        """
        names = None if users is None else [UserName(name=user) for user in dict.fromkeys(users)]
        call = Call[None, Any](
            action="describe SCRAM credentials",
            api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            to=AnyBrokerStrategy(),
            build=lambda context: DescribeUserScramCredentialsRequest(users=names),
            read=lambda response, context: {None: error_of(response) or response},
            name=nameless,
        )
        response = await self._routing.one(call, timeout_ms)
        described = {one.user: error_of(one) or _credentials(one) for one in response.results}
        return outcomes_of("describe SCRAM credentials of", described)

    async def alter(
        self, changes: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Set and remove credentials; the outcome is per user.

        Brokers refuse two changes of a user in one request, so a user's changes are made one after
        the other; those after a failed one are left out.

        Raises: UsageError for an unknown mechanism.
        """
        remaining_ms = self._routing.countdown(timeout_ms)
        by_user: dict[str, deque[ScramUpsertion | ScramDeletion]] = defaultdict(deque)
        for change in changes:
            if change.mechanism not in _HASHES:
                raise UsageError(f"the SCRAM mechanism of user {change.user} is unknown")
            by_user[change.user].append(change)
        outcomes: dict[str, Outcome[None]] = {}
        while by_user:
            entries = {user: await _entry(waiting.popleft()) for user, waiting in by_user.items()}
            outcomes.update(await self._routing.each(entries, _alter(entries), remaining_ms()))
            by_user = {
                user: waiting
                for user, waiting in by_user.items()
                if waiting and outcomes[user].is_ok
            }
        return Outcomes(outcomes)


async def _entry(
    change: ScramUpsertion | ScramDeletion,
) -> ScramCredentialUpsertion | ScramCredentialDeletion:
    if isinstance(change, ScramDeletion):
        return ScramCredentialDeletion(name=change.user, mechanism=change.mechanism)
    # Made slow on purpose: many iterations would hold up the loop.
    return await asyncio.to_thread(salted, change)


def _alter(
    entries: Mapping[str, ScramCredentialUpsertion | ScramCredentialDeletion],
) -> Call[str, None]:
    def build(context: RequestContext[str]) -> AlterUserScramCredentialsRequest:
        some = [entries[user] for user in context.keys]
        return AlterUserScramCredentialsRequest(
            deletions=[one for one in some if isinstance(one, ScramCredentialDeletion)],
            upsertions=[one for one in some if isinstance(one, ScramCredentialUpsertion)],
        )

    return Call(
        action="alter SCRAM credentials of",
        api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        to=ControllerStrategy(),
        build=build,
        read=lambda response, context: {one.user: error_of(one) for one in response.results},
        is_change=True,
    )


def salted(change: ScramUpsertion) -> ScramCredentialUpsertion:
    """The entry of a request, with the salted password in place of the password."""
    salt = secrets.token_bytes(_SALT_BYTES) if change.salt is None else change.salt
    return ScramCredentialUpsertion(
        name=change.user,
        mechanism=change.mechanism,
        iterations=change.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(
            _HASHES[change.mechanism], change.password.encode(), salt, change.iterations
        ),
    )


def _credentials(one: Any) -> tuple[ScramCredential, ...]:
    return tuple(
        ScramCredential(mechanism=ScramMechanism(info.mechanism), iterations=info.iterations)
        for info in sorted(one.credential_infos, key=lambda info: int(info.mechanism))
    )
