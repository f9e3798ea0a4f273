"""What the group coordinator is told about the client behind a request."""

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.network.session import Exchange


def group_context(exchange: Exchange) -> RequestContext:
    """The client's id and host, and the version that it speaks."""
    return RequestContext(
        client_id=exchange.client_id or "",
        client_host=f"/{exchange.session.host}",
        api_version=exchange.api_version,
    )
