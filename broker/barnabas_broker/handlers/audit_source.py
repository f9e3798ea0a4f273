"""Who sent a request, as the audit log tells it. Source: SEC-70."""

from __future__ import annotations

from contextlib import suppress

from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.audit.audit_event import AuditSource
from barnabas_protocol.api import ApiKey


def audit_source(in_flight: InFlightRequest) -> AuditSource:
    """All that is told of a request; what is in an envelope is its client's."""
    api = str(in_flight.api_key)
    with suppress(ValueError):
        api = ApiKey(in_flight.api_key).name
    return AuditSource(
        principal=str(in_flight.principal),
        host=in_flight.host,
        listener=in_flight.session.listener_name,
        client_id=in_flight.client_id or "",
        api=api,
        version=in_flight.api_version,
        correlation_id=in_flight.correlation_id,
    )
