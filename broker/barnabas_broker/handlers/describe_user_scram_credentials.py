"""DescribeUserScramCredentials (50), version 0: which SCRAM credentials users have (KIP-554).

Mechanisms and iterations alone: salts and keys do not leave the brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from barnabas_broker.handlers.request_limits import encode_checked
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

LOOP_CREDENTIALS_MAX: Final = 1_000
"""So many are described in a few milliseconds."""


def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse | Coroutine[Any, Any, bytes]:
    """Describe the users that are named, or all; a coroutine where there are very many."""
    image = services.image
    names = None if request.users is None else [user.name for user in request.users]
    if max(len(image.scram_credentials), len(names or ())) > LOOP_CREDENTIALS_MAX:
        return services.heavy_work.run(in_flight, _encoded, in_flight, image, names)
    return described(image, names)


def _encoded(
    in_flight: InFlightRequest, image: MetadataImage, names: Iterable[str] | None
) -> bytes:
    return encode_checked(in_flight, described(image, names))


def described(
    image: MetadataImage, names: Iterable[str] | None
) -> DescribeUserScramCredentialsResponse:
    """The credentials of users by name, of all users where none is named (null or empty)."""
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in image.scram_credentials.items():
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        known.setdefault(user, []).append(info)
    counts = Counter(list(names or known))
    return DescribeUserScramCredentialsResponse(
        results=[_result(user, count, known.get(user)) for user, count in counts.items()]
    )


def _result(
    user: str, count: int, infos: list[CredentialInfo] | None
) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single"
            f" request: {user}",
        )
    if infos is None:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)


def failed(
    request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """The error alone."""
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message)
