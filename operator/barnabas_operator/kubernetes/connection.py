"""Where the API server is and who the operator is there: one answer for both of its clients.

kopf watches with a client of its own, and all other requests go through the dynamic client of
`kubernetes.aio`; both get their address and credentials from here. kopf's client offers no requests
to others, and the library's watches know nothing of kopf's handlers, so there are two.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import kopf
    from kubernetes.aio.client import ApiClient, Configuration

_USER_AGENT = "barnabas-operator"
# A pass over one cluster asks for a few objects at a time; more connections would not be used.
_CONNECTIONS_MAX = 16


async def load_configuration(kubeconfig: str | None = None) -> Configuration:
    """Address and credentials: of the file, else of the pod, else of the user's own kubeconfig.

    Raises: kubernetes.aio's ConfigException where there is none of them.
    """
    from kubernetes.aio import config
    from kubernetes.aio.client import Configuration

    loading: Any = config
    configuration = Configuration()
    if kubeconfig is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        loading.load_incluster_config(client_configuration=configuration)
    else:
        # Without a file of its own it takes $KUBECONFIG or the one in the home directory.
        await loading.load_kube_config(
            config_file=None if kubeconfig is None else str(Path(kubeconfig)),
            client_configuration=configuration,
        )
    configuration.connection_pool_maxsize = _CONNECTIONS_MAX
    # Reconciling again is the retry: a repeated write could come late and undo something.
    configuration.retries = None
    return configuration


def new_client(configuration: Configuration) -> ApiClient:
    """A client that is connected when it is first used; to be closed."""
    from kubernetes.aio.client import ApiClient

    client = ApiClient(configuration)
    client.user_agent = _USER_AGENT
    return client


async def kopf_credentials(configuration: Configuration) -> kopf.ConnectionInfo:
    """The same for kopf; asked for again when the API server has refused a token."""
    import kopf

    header = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    scheme, _, token = (header or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        username=configuration.username or None,
        password=configuration.password or None,
        scheme=scheme.capitalize() or None,
        token=token.strip() or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )
