"""`admin.scram`: DescribeUserScramCredentials (50) and AlterUserScramCredentials (51).

The salted password is computed here (RFC 5802), so the password itself never travels.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas_client.admin.destinations import AnyBroker, Controller
from barnabas_client.admin.ledger import outcomes_of, refused
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, nameless
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
            to=AnyBroker(),
            build=lambda asked: DescribeUserScramCredentialsRequest(users=names),
            read=lambda answer, asked: {None: refused(answer) or answer},
            name=nameless,
        )
        answer = await self._routing.one(call, timeout_ms)
        described = {one.user: refused(one) or _credentials(one) for one in answer.results}
        return outcomes_of("describe SCRAM credentials of", described)

    async def alter(
        self, changes: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Set and remove credentials; all changes of one user are made or none.

        Raises: UsageError for an unknown mechanism.
        """
        by_user: dict[str, list[ScramCredentialDeletion | ScramCredentialUpsertion]]
        by_user = defaultdict(list)
        for change in changes:
            if change.mechanism not in _HASHES:
                raise UsageError(f"the SCRAM mechanism of user {change.user} is unknown")
            if isinstance(change, ScramDeletion):
                entry = ScramCredentialDeletion(name=change.user, mechanism=change.mechanism)
                by_user[change.user].append(entry)
            else:
                # Made slow on purpose: many iterations would hold up the loop.
                by_user[change.user].append(await asyncio.to_thread(salted, change))
        call = Call[str, None](
            action="alter SCRAM credentials of",
            api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            to=Controller(),
            build=lambda asked: _alterations(asked.keys, by_user),
            read=lambda answer, asked: {one.user: refused(one) for one in answer.results},
            is_change=True,
        )
        return await self._routing.each(by_user, call, timeout_ms)


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
        for info in one.credential_infos
    )


def _alterations(
    users: Sequence[str],
    by_user: Mapping[str, Sequence[ScramCredentialDeletion | ScramCredentialUpsertion]],
) -> AlterUserScramCredentialsRequest:
    entries = [entry for user in users for entry in by_user[user]]
    return AlterUserScramCredentialsRequest(
        deletions=[one for one in entries if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in entries if isinstance(one, ScramCredentialUpsertion)],
    )
