"""How the operator is known to brokers that are secure: its certificate, from the Broker's Secret.

The certificate is signed by the cluster's authority and is a super user's; it is renewed like every
other one, so it is read anew now and then. No file is ever written of it.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.config.options import AdminOptions
from barnabas_client.errors import RetriableError
from barnabas_client.network.tls import create_context
from barnabas_operator.certificates.authority_secret import secret_text
from barnabas_operator.certificates.pem import CertificateError
from barnabas_operator.kubernetes.api import KubernetesApi
from barnabas_operator.kubernetes.kinds import SECRET


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccess:
    """How a client of the operator connects; without a certificate in plain text."""

    servers: str = ""
    bundle: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)
    allows_plain: bool = False

    def options(self) -> AdminOptions:
        """Settings of a client."""
        if not self.certificate:
            return {}
        return {
            "security_protocol": "SSL",
            "ssl_ca_pem": self.bundle,
            "ssl_certificate_pem": self.certificate,
            "ssl_key_pem": self.key,
        }

    def pod_context(self) -> ssl.SSLContext:
        """For connections to a pod's address, which is in no certificate: any broker will do.

        Raises: ConfigurationError.
        """
        settings = {**self.options(), "ssl_check_hostname": False}
        context = create_context(AdminSettings.create({"bootstrap_servers": "pod:1", **settings}))
        assert context is not None
        return context


def operator_secret(broker: str) -> str:
    """The Secret with the operator's certificate for a Broker."""
    return f"{broker}-operator-certificate"


async def read_access(
    api: KubernetesApi, namespace: str, broker: str, servers: str = ""
) -> ClientAccess:
    """The operator's access to a Broker.

    Raises: RetriableError where there is no certificate yet; KubernetesError.
    """
    secret = await api.get(SECRET, namespace, operator_secret(broker))
    try:
        access = ClientAccess(
            servers=servers,
            bundle=secret_text(secret, "ca.crt"),
            certificate=secret_text(secret, "tls.crt"),
            key=secret_text(secret, "tls.key"),
        )
    except CertificateError as error:
        raise RetriableError(f"the operator's certificate: {error}") from None
    if not access.certificate:
        raise RetriableError("the operator has no certificate for these brokers yet")
    return access
