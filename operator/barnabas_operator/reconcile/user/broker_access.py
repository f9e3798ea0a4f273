"""What Users need to know of their Broker: where it is reached, whom it trusts, what it allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas_operator.certificates.authority import Authority
from barnabas_operator.security_spec import (
    CERTIFICATES_PORT,
    CLIENTS_PORT,
    NamespaceLimit,
    SecuritySpec,
    token_audience,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """A Broker as its users see it.

    `bundle` is what clients have to trust; `clients` signs their certificates, None while there is
    no such authority yet.
    """

    namespace: str
    name: str
    security: SecuritySpec
    bundle: str = ""
    clients: Authority | None = field(default=None, repr=False)

    @property
    def servers(self) -> str:
        """The bootstrap address for passwords and tokens."""
        return f"{self.name}-bootstrap.{self.namespace}.svc:{CLIENTS_PORT}"

    @property
    def certificate_servers(self) -> str:
        """The bootstrap address for certificates."""
        return f"{self.name}-bootstrap.{self.namespace}.svc:{CERTIFICATES_PORT}"

    @property
    def audience(self) -> str:
        """Whom tokens of ServiceAccounts are for (SEC-29): never the API server."""
        return token_audience(self.namespace, self.name)

    @property
    def limits(self) -> Mapping[str, NamespaceLimit]:
        """What Users of other namespaces may have."""
        return self.security.user_namespaces
