"""Brokers with security in the release's namespace, where the operator may write Secrets, and Users
of them."""

import json
from typing import Any

from tests.e2e.support.declared_brokers import SPARE_CONFIG, DeclaredBrokers
from tests.e2e.support.kubectl import Kubectl, is_ready, names
from tests.e2e.support.topics import API_VERSION

PREFIX = "orders."


class SecureBrokers(DeclaredBrokers):
    """Three brokers, with whatever a test wants of their security."""

    def secure(self, *, external: dict[str, Any] | None = None, **more: Any) -> None:
        """Declare them with security on; `more` of its block goes besides."""
        self._declare({"enabled": True, **more}, external)

    def plain(self, *, external: dict[str, Any] | None = None, **more: Any) -> None:
        """Declare them with security off."""
        self._declare({"enabled": False, **more}, external)

    def _declare(self, security: dict[str, Any], external: dict[str, Any] | None) -> None:
        self.declare(
            replicas=3,
            storage={"size": "1Gi"},
            config=SPARE_CONFIG,
            security=security,
            listeners={} if external is None else {"external": external},
        )

    @property
    def secure_bootstrap(self) -> str:
        """Where clients with passwords begin."""
        return self.bootstrap.replace(":9092", ":9093")

    def security(self) -> Any:
        """What the status tells of it, empty where they are plain."""
        return self.told().get("security", {})

    def until_phase(self, phase: str, timeout_seconds: float = 400) -> None:
        """The status shows a phase, and nobody restarts."""

        def holds(status: Any) -> bool:
            shown = status.get("security", {}).get("phase", "Plain")
            return bool(shown == phase) and self.is_settled()

        self.until_told(holds, timeout_seconds)

    def add_user(self, name: str, authentication: dict[str, Any]) -> None:
        """A User that may use topics `orders.` and its own groups, and that is Ready."""
        declare_user(self.kubectl, self.name, name, authentication)

    def forget_all(self) -> None:
        """Users, brokers and what outlives them."""
        mine = [
            one
            for one in self.kubectl.list("users")
            if one["spec"]["brokerRef"]["name"] == self.name
        ]
        for user in names(mine):
            self.kubectl.delete("user", user)
        self.forget()
        for authority in ("cluster-ca", "clients-ca"):
            self.kubectl.delete("secret", f"{self.name}-{authority}")


def declare_user(
    kubectl: Kubectl, broker: str, name: str, authentication: dict[str, Any], **more: Any
) -> None:
    """A User of brokers that may use topics `orders.` and groups that begin with its name, and
    that is Ready."""
    topic = {"type": "topic", "name": PREFIX, "patternType": "prefix"}
    group = {"type": "group", "name": name, "patternType": "prefix"}
    rights = [
        {"resource": topic, "operations": ["Read", "Write", "Describe"]},
        {"resource": group, "operations": ["Read", "Describe"]},
    ]
    kubectl.apply(
        {
            "apiVersion": API_VERSION,
            "kind": "User",
            "metadata": {"name": name},
            "spec": {
                "brokerRef": {"name": broker},
                "authentication": authentication,
                "authorization": {"acls": rights},
                **more,
            },
        }
    )
    kubectl.until(
        lambda: is_ready(kubectl.get("user", name)),
        120,
        lambda: json.dumps(kubectl.get("user", name), indent=1),
    )
