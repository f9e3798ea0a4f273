"""Which connections are those of brokers: their listener, and a principal where they log in.

Without `barnabas.broker.principals` and without an authorizer, whoever reaches the brokers'
listener is a broker (decision 0014). With an authorizer and no principals nobody is: that is enough
for a broker without others.

Source: SEC-60.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from barnabas_broker.security.broker_principals import BrokerPrincipals
from barnabas_broker.security.principal import Principal


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The rule of one broker."""

    listener_name: str
    principals: BrokerPrincipals | None = None  # None: the listener is enough
    others: frozenset[str] = frozenset()  # listeners besides, while brokers change from one

    @staticmethod
    def of(
        listener_name: str, principals: str, *, is_secured: bool, others: Collection[str] = ()
    ) -> BrokerIdentity:
        """The rule of these settings; `is_secured` where rights are checked.

        Raises: ConfigError.
        """
        named = frozenset(others)
        if not principals.strip() and not is_secured:
            return BrokerIdentity(listener_name, others=named)
        return BrokerIdentity(listener_name, BrokerPrincipals.parse(principals), named)

    @property
    def is_open(self) -> bool:
        """Whether whoever reaches the listener is a broker."""
        return self.principals is None

    def is_for_brokers(self, listener_name: str) -> bool:
        """Whether only brokers are to connect to a listener."""
        return listener_name == self.listener_name or listener_name in self.others

    def is_broker(self, listener_name: str, principal: Principal) -> bool:
        """Whether a connection is that of a broker."""
        if not self.is_for_brokers(listener_name):
            return False
        return self.principals is None or principal in self.principals

    def may_speak_for(self, listener_name: str, principal: Principal, node_id: int) -> bool:
        """Whether a connection is that of this broker."""
        if not self.is_for_brokers(listener_name):
            return False
        return self.principals is None or self.principals.may_speak_for(principal, node_id)
