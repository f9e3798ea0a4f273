"""Whether a request's principal may do what it asks for.

Without an authorizer everybody may do everything. Rights come before look-ups: who may not see a
resource is told the same whether it exists or not (SEC-46). Brokers hold CLUSTER_ACTION by their
own listener, and little else (SEC-60).

Not here: which API needs what (`rights.py`), and what decides (`security/`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from functools import partial
from typing import Final, TypeVar

from barnabas_broker.handlers.audit_source import audit_source
from barnabas_broker.handlers.broker_listener import is_of_brokers
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.allowed_names import AllowedNames
from barnabas_broker.security.authorizer import CLUSTER_NAME, AccessQuestion, Authorizer
from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError

Resource = TypeVar("Resource")

REFUSALS: Final = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""What a request is told that lacks a right to a resource of a type."""
TOPIC_REFUSED: Final = "Topic authorization failed."
"""Apache Kafka's words, in the responses that have a text for each topic."""


_OF_BROKERS: Final = frozenset(
    {
        (AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER),
        # Topics of coordinators, and those that clients may create by naming them.
        (AclOperation.CREATE, AclResourceType.CLUSTER),
        # Ends of logs, for the lag of share groups.
        (AclOperation.DESCRIBE, AclResourceType.TOPIC),
    }
)
"""What brokers may do in their own name without an ACL (SEC-60)."""


def may(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
    *,
    is_filter: bool = False,
) -> bool:
    """Whether the request's principal may do something to a resource.

    `is_filter`: it has not named the resource, which is left out where the right is missing.
    """
    authorizer = services.authorizer
    if authorizer is None:
        return True
    if (operation, resource_type) in _OF_BROKERS and is_of_brokers(services, in_flight):
        return True
    question = AccessQuestion(in_flight.principal, in_flight.host, operation, resource_type, name)
    is_allowed = authorizer.is_allowed(question, is_filter=is_filter)
    if not is_filter:
        _note_check(services, in_flight, question, is_allowed)
    return is_allowed


def _note_check(
    services: Services, in_flight: InFlightRequest, question: AccessQuestion, is_allowed: bool
) -> bool:
    """Tell the audit log what was asked for by name (SEC-71); whether it need not be told again."""
    audit = services.audit
    if audit is None:
        return True
    return audit.checked(question, partial(audit_source, in_flight), is_allowed=is_allowed)


def acts_as_broker(services: Services, in_flight: InFlightRequest) -> bool:
    """Whether a broker requests this, or, with an authorizer, who may act as one."""
    if services.authorizer is None:
        return is_of_brokers(services, in_flight)
    return may_cluster(services, in_flight, AclOperation.CLUSTER_ACTION)


def may_cluster(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    *,
    is_filter: bool = False,
) -> bool:
    """Whether the request's principal may do something to the cluster.

    `is_filter`: another right will do as well, or nothing is refused without it.
    """
    return may(
        services, in_flight, operation, AclResourceType.CLUSTER, CLUSTER_NAME, is_filter=is_filter
    )


async def may_somewhere(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    resource_type: AclResourceType,
) -> bool:
    """Whether there can be a resource to which the request's principal may do something.

    The loop goes on where there are very many ACLs. Raises: ConnectionGoneError.
    """
    authorizer = services.authorizer
    if authorizer is None:
        return True
    question = AccessQuestion(in_flight.principal, in_flight.host, operation, resource_type, None)
    for _ in authorizer.weighing(question):
        await services.heavy_work.pause_of(in_flight)
    is_allowed = authorizer.is_allowed(question)
    _note_check(services, in_flight, question, is_allowed)
    return is_allowed


def topic_rights(
    services: Services, in_flight: InFlightRequest, of_all: AclOperation
) -> Callable[[AclOperation, str], bool]:
    """What the request's principal may do to topics, as the controller's commands ask.

    Who has `of_all` on the cluster has it on every topic.
    """
    may_all = may_cluster(services, in_flight, of_all, is_filter=True)

    def may_topic(operation: AclOperation, name: str) -> bool:
        if may_all and operation in (of_all, AclOperation.DESCRIBE):
            return True
        is_filter = operation is AclOperation.DESCRIBE_CONFIGS  # else they are not told
        return may(services, in_flight, operation, AclResourceType.TOPIC, name, is_filter=is_filter)

    return may_topic


async def allowed(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    resource_type: AclResourceType,
    names: Iterable[str],
    *,
    is_filter: bool = False,
) -> set[str]:
    """Those of the names to which the request's principal may do something, each asked once.

    The loop goes on where they are many. Raises: ConnectionGoneError.
    """
    wanted = set(names)
    if services.authorizer is None:
        return wanted
    return {
        name
        async for name in services.heavy_work.each(in_flight, wanted)
        if may(services, in_flight, operation, resource_type, name, is_filter=is_filter)
    }


def topic_filter(services: Services, in_flight: InFlightRequest) -> Callable[[str], bool] | None:
    """Whether the request's principal may see a topic, for later; None where it may see all."""
    authorizer = services.authorizer
    if authorizer is None or is_of_brokers(services, in_flight):
        return None
    return partial(_sees_topic, authorizer, in_flight.principal, in_flight.host)


def _sees_topic(authorizer: Authorizer, principal: Principal, host: str, topic: str) -> bool:
    question = AccessQuestion(principal, host, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
    return authorizer.is_allowed(question, is_filter=True)


def refused_topics(
    services: Services,
    authorizer: Authorizer,
    in_flight: InFlightRequest,
    operation: AclOperation,
    names: Set[str],
) -> Set[str]:
    """Those of the topics on which the request's principal may not do something.

    For requests of records: what the connection has been allowed before is not asked again.
    Brokers read what others lead, for lag: by CLUSTER_ACTION they may follow it as well.
    """
    if operation is AclOperation.READ and is_of_brokers(services, in_flight):
        return frozenset()
    session = in_flight.session
    known = session.allowed_topics
    if known is None:
        known = session.allowed_topics = AllowedNames(AclResourceType.TOPIC)
    note = None if services.audit is None else partial(_note_check, services, in_flight)
    return known.refused(authorizer, session.principal, session.host, operation, names, note)


async def refused_of_many_topics(
    services: Services,
    authorizer: Authorizer,
    in_flight: InFlightRequest,
    operation: AclOperation,
    names: Set[str],
) -> Set[str]:
    """The same while the loop goes on: a check that is not known yet takes some microseconds.

    Raises: ConnectionGoneError.
    """
    refused: set[str] = set()
    left = list(names)
    for start in range(0, len(left), SLICE):
        if start:
            await services.heavy_work.pause_of(in_flight)
        some = frozenset(left[start : start + SLICE])
        refused |= refused_topics(services, authorizer, in_flight, operation, some)
    return refused


async def parted(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    resource_type: AclResourceType,
    resources: Collection[Resource],
    name_of: Callable[[Resource], str],
) -> tuple[list[Resource], list[Resource]]:
    """The resources to which the request's principal may do something, and the others.

    Raises: ConnectionGoneError.
    """
    if services.authorizer is None:
        return list(resources), []
    names = await allowed(services, in_flight, operation, resource_type, map(name_of, resources))
    return (
        [resource for resource in resources if name_of(resource) in names],
        [resource for resource in resources if name_of(resource) not in names],
    )


def require(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
) -> None:
    """Refuse the whole request where a right is missing. Raises: KafkaError."""
    if not may(services, in_flight, operation, resource_type, name):
        raise KafkaError(REFUSALS[resource_type])


def require_cluster(
    services: Services, in_flight: InFlightRequest, *operations: AclOperation
) -> None:
    """Refuse the whole request without a right to the cluster; any of them will do.

    Raises: KafkaError 31.
    """
    *others, last = operations
    if any(may_cluster(services, in_flight, other, is_filter=True) for other in others):
        return
    require(services, in_flight, last, AclResourceType.CLUSTER, CLUSTER_NAME)


def require_rights_change(services: Services, in_flight: InFlightRequest) -> None:
    """Refuse a change of rights or credentials without ALTER of the cluster, whatever the mode.

    While denials only show, else anybody could give himself what holds later. Raises: KafkaError
    31.
    """
    authorizer = services.authorizer
    if authorizer is None or authorizer.may_change_rights(in_flight.principal, in_flight.host):
        return
    cluster = AclResourceType.CLUSTER
    asked = AccessQuestion(
        in_flight.principal, in_flight.host, AclOperation.ALTER, cluster, CLUSTER_NAME
    )
    _note_check(services, in_flight, asked, False)
    raise KafkaError(REFUSALS[cluster])
