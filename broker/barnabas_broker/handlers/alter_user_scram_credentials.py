"""AlterUserScramCredentials (51), version 0: store and remove SCRAM credentials (KIP-554).

Needs Alter on the cluster; who has that may still not change a super user's credentials (SEC-25).
"""

from __future__ import annotations

from barnabas_broker.controller.scram_credentials import CredentialDeletion, CredentialUpsertion
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.principal import Principal
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change the credentials of each user on its own."""
    authorizer, principal = services.authorizer, in_flight.principal

    def may_change(user: str) -> bool:
        return (
            authorizer is None
            or not authorizer.is_super_user(Principal.user(user))
            or authorizer.is_super_user(principal)
        )

    outcomes = await services.controller.alter_scram_credentials(
        [CredentialDeletion(one.name, one.mechanism) for one in request.deletions],
        [
            CredentialUpsertion(
                user=one.name,
                mechanism=one.mechanism,
                iterations=one.iterations,
                salt=bytes(one.salt),
                salted_password=bytes(one.salted_password),
            )
            for one in request.upsertions
        ],
        may_change,
    )
    return AlterUserScramCredentialsResponse(
        results=[_result(user, error) for user, error in outcomes.items()]
    )


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def failed(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    """The same error for every user."""
    users = dict.fromkeys([one.name for one in request.deletions])
    users |= dict.fromkeys([one.name for one in request.upsertions])
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])
