"""AlterUserScramCredentials (51), version 0: store and remove SCRAM credentials (KIP-554).

Needs Alter on the cluster; who has that may still not change a super user's credentials (SEC-25),
nor make any with a broker's name.

What is stored of a password is derived from the salted one, by which anybody can log in. A client
that sends that by TLS does not expect brokers to send it on in plain: there the request is refused
by every broker but the controller (SEC-62).
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.config.listeners import ENCRYPTED
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.scram_credentials import CredentialDeletion, CredentialUpsertion
from barnabas_broker.handlers.forwarding import ForwardedRequest
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.principal import Principal
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

LOOP_UPSERTIONS_MAX: Final = 100
"""So many take a millisecond of hashing."""
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


async def handle(
    services: Services, in_flight: InFlightRequest, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change the credentials of each user on its own."""
    if isinstance(in_flight, ForwardedRequest):
        _check_way(services, request)
    authorizer, principal = services.authorizer, in_flight.principal
    brokers = services.broker_identity.principals or ()

    def may_change(user: str) -> bool:
        if authorizer is None or authorizer.is_super_user(principal):
            return True
        named = Principal.user(user)
        return not authorizer.is_super_user(named) and named not in brokers

    if len(request.upsertions) > LOOP_UPSERTIONS_MAX:
        upsertions = await services.heavy_work.run(in_flight, _with_keys, request)
    else:
        upsertions = _with_keys(request)
    outcomes = await services.controller.alter_scram_credentials(
        [CredentialDeletion(one.name, one.mechanism) for one in request.deletions],
        upsertions,
        may_change,
    )
    return AlterUserScramCredentialsResponse(
        results=[_result(user, error) for user, error in outcomes.items()]
    )


def _with_keys(request: AlterUserScramCredentialsRequest) -> list[CredentialUpsertion]:
    """The upsertions of a request, and what is to be stored of each."""
    return [
        CredentialUpsertion(
            user=one.name,
            mechanism=one.mechanism,
            iterations=one.iterations,
            salt=bytes(one.salt),
            salted_password=bytes(one.salted_password),
        ).with_keys()
        for one in request.upsertions
    ]


def resolve(
    services: Services, in_flight: InFlightRequest, request: AlterUserScramCredentialsRequest
) -> None:
    """Refuse to send it on where it would be in plain; else it travels as it is.

    Raises: KafkaError 44.
    """
    _check_way(services, request)


def _check_way(services: Services, request: AlterUserScramCredentialsRequest) -> None:
    if request.upsertions and _is_plain_among_brokers(services.config):
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Clients have TLS here and brokers do not, so that salted passwords would be sent on "
            "in plain: give the brokers' listener TLS, or connect to the controller's broker.",
        )


def _is_plain_among_brokers(config: BrokerConfig) -> bool:
    """Whether clients have TLS and the brokers' listener has not, and is on a network."""
    own = config.inter_broker_listener_name
    has_tls = {one.name: one.security_protocol in ENCRYPTED for one in config.listeners}
    hosts = [one.host for one in config.listeners if one.name == own]
    if has_tls.get(own) or all(host in _LOOPBACK for host in hosts):
        return False
    return any(is_encrypted for is_encrypted in has_tls.values())


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
