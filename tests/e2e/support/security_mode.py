"""Whether the clusters of the tests have security (`SECURE=1`), and how they get it.

All of it is on: certificates and TLS among brokers, operator and admin port, log-in, rights,
policies. Only the plain listener stays open for the tests' clients, in phase Audit, which a cluster
comes to from being plain. Clients by TLS, and rights that are enforced, are for `test_secure_*.py`.
"""

import os
from typing import Any

IS_SECURE = os.environ.get("SECURE", "") not in ("", "0")
SECURITY: dict[str, Any] = {"enabled": True, "plainListener": "Open"}
#: How long brokers may take to be as they are declared: from plain to Audit each restarts thrice.
CHANGE_SECONDS = 900 if IS_SECURE else 300


def is_as_secure_as_wanted(status: dict[str, Any]) -> bool:
    """Whether the status of a Broker shows the phase that the tests want."""
    return not IS_SECURE or status.get("security", {}).get("phase") == "Audit"
