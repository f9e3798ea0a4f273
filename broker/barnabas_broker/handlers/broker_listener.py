"""Tells requests of brokers from those of clients, by the listener they came by.

Source: `docs/decisions/0014-a-listener-for-brokers.md`.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest


def is_of_brokers(services: Services, in_flight: InFlightRequest) -> bool:
    """Whether the request came by the listener that is for brokers only.

    Any listener will do while the metadata names another broker without such a listener: it is of
    a release that had none, and its cluster is being upgraded.
    """
    name = services.config.inter_broker_listener_name
    if in_flight.session.listener_name == name:
        return True
    return any(
        name not in broker.listeners
        for broker in services.image.brokers.values()
        if broker.node_id != services.config.node_id
    )
