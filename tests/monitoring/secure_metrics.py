"""What only brokers with security expose, which the watched cluster has not: names and labels.

`tests/operator/test_secure_broker.py` holds them against a broker that has it.
"""

from collections.abc import Mapping

SECURE_METRICS: Mapping[str, frozenset[str]] = {
    "barnabas_tls_certificate_not_after_seconds": frozenset(("listener",)),
    "barnabas_tls_handshakes_total": frozenset(("listener", "outcome")),
    "barnabas_tls_reloads_total": frozenset(("listener",)),
    "barnabas_tls_reload_failures_total": frozenset(("listener",)),
    "barnabas_login_failures_total": frozenset(("mechanism",)),
    "barnabas_authorizer_denials_total": frozenset(),
    "barnabas_audit_dropped_total": frozenset(),
}
