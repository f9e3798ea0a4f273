"""How the console reaches its cluster, and as whom: addresses and settings of the client.

Not here: what is asked (`viewer.py`), where the settings come from (the command line).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from barnabas_client.admin.admin import Admin
from barnabas_client.config.roles import Role, settings_for
from barnabas_client.consumer.consumer import Consumer

if TYPE_CHECKING:
    from barnabas_client.producer.producer import Producer

CLIENT_ID: Final = "barnabas-console"
"""By which brokers know the console's requests, in quotas and logs (CON-135)."""
_CREDENTIALS: Final = frozenset(
    {
        "sasl_username",
        "sasl_password",
        "sasl_oauthbearer_token_file",
        "sasl_oauthbearer_token_callback",
        "sasl_exchange",
        "ssl_certfile",
        "ssl_keyfile",
        "ssl_certificate_pem",
        "ssl_key_pem",
    }
)
"""What says who one is: never given on from who started the console to who logs in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConnection:
    """One principal's way to the cluster; `settings` are the client's, of any role.

    Where the principal is not sure, it is what a token says of itself, which brokers may read
    otherwise: it is for showing, and nothing is decided by it.
    """

    bootstrap_servers: str
    principal: str
    timeout_ms: int
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    is_principal_sure: bool = True

    @property
    def logs_in(self) -> bool:
        """Whether its brokers have a log-in."""
        return str(self.settings.get("security_protocol", "")).upper().startswith("SASL")

    def with_password(self, name: str, password: str) -> ClusterConnection:
        """The same way for another user, by what the settings say of TLS and the mechanism."""
        return self._as(f"User:{name}", sasl_username=name, sasl_password=password)

    def with_token(
        self, principal: str, token: Callable[[], str | Awaitable[str]]
    ) -> ClusterConnection:
        """The same way for who holds the token that is given; brokers say who that is."""
        connection = self._as(
            principal,
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_callback=token,
        )
        return replace(connection, is_principal_sure=False)

    def _as(self, principal: str, **credentials: Any) -> ClusterConnection:
        kept = {name: value for name, value in self.settings.items() if name not in _CREDENTIALS}
        return replace(self, principal=principal, settings={**kept, **credentials})

    def admin(self) -> Admin:
        """An administrative client that is not started."""
        return Admin(self.bootstrap_servers, **self._settings(Role.ADMIN))

    def consumer(self, **settings: Any) -> Consumer:
        """A consumer that is not started; the settings given here win."""
        return Consumer(self.bootstrap_servers, **self._settings(Role.CONSUMER, **settings))

    def producer(self, **settings: Any) -> Producer:
        """A producer that is not started; the settings given here win."""
        # Most consoles write no record, and it takes a MiB (CON-174).
        from barnabas_client.producer.producer import Producer

        return Producer(self.bootstrap_servers, **self._settings(Role.PRODUCER, **settings))

    def _settings(self, role: Role, **settings: Any) -> dict[str, Any]:
        given = settings_for(role, self.settings)
        return {
            "default_api_timeout_ms": self.timeout_ms,
            **given,
            "client_id": CLIENT_ID,
            **settings,
        }
