"""Tells requests of brokers from those of clients, by listener and principal.

Source: `docs/decisions/0014-a-listener-for-brokers.md`, SEC-60.
"""

from barnabas_broker.handlers.forwarding import ForwardedRequest, is_by_broker
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError


def is_of_brokers(services: Services, in_flight: InFlightRequest) -> bool:
    """Whether a broker itself requests this; what is in an envelope is a client's.

    Where brokers do not log in, any listener will do while the metadata names another broker
    without a listener for brokers: it is of a release that had none, and its cluster is being
    upgraded.
    """
    identity = services.broker_identity
    if is_by_broker(identity, in_flight):
        return True
    return identity.is_open and _is_upgrading(services)


def is_on_listener_of_brokers(services: Services, in_flight: InFlightRequest) -> bool:
    """Whether a request came where only brokers are to connect, by whomever."""
    return services.broker_identity.is_for_brokers(in_flight.session.listener_name)


def is_of_broker(services: Services, in_flight: InFlightRequest, node_id: int) -> bool:
    """Whether this very broker requests it, as far as its log-in tells."""
    identity = services.broker_identity
    if identity.is_open:
        return is_of_brokers(services, in_flight)
    return not isinstance(in_flight, ForwardedRequest) and identity.may_speak_for(
        in_flight.session.listener_name, in_flight.principal, node_id
    )


def require_broker(services: Services, in_flight: InFlightRequest, node_id: int) -> None:
    """Refuse what one broker says in the name of another. Raises: KafkaError 31."""
    if not is_of_broker(services, in_flight, node_id):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{in_flight.principal} may not speak for broker {node_id}",
        )


def _is_upgrading(services: Services) -> bool:
    """Whether another broker of an earlier release is registered."""
    name = services.broker_identity.listener_name
    return any(
        name not in broker.listeners
        for broker in services.image.brokers.values()
        if broker.node_id != services.config.node_id
    )
