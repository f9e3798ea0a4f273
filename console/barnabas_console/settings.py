"""The settings of one console process: where it listens, for whom, and what it may do.

Nothing here comes from a browser: clusters, logins and files are named where the process is started
(CON-143). Invariant: settings that exist are safe to listen with (CON-140).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from barnabas_console.loopback import is_loopback
from barnabas_console.oidc.oidc_settings import OidcSettings
from barnabas_console.records.decoding import DecodingRules
from barnabas_console.records.masking import MaskRules

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9640
NO_LOGIN: Final = "none"
OIDC: Final = "oidc"
LOGINS: Final = (NO_LOGIN, "sasl", OIDC, "kubernetes")
"""By nothing; by user and password; with an OpenID provider; by a token, a ServiceAccount's for
example."""


class ConsoleSettingsError(Exception):
    """A setting that the console refuses to start with; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """How one console is served.

    `path_prefix` is empty or begins with a slash and has none at its end. `allowed_hosts` are names
    that browsers may call the console by, besides those of the loopback address and `host`.
    `write_audit_line` takes the lines of the audit log; None lets them go to the log.
    `kubernetes` is where the API server is that the console reads: `in-cluster`, an address, or
    nothing; without a namespace it is the pod's own, or all.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    path_prefix: str = ""
    allowed_hosts: tuple[str, ...] = ()
    cluster_name: str = "local"
    is_read_only: bool = False
    probe_port: int | None = None
    decoding: DecodingRules = field(default_factory=DecodingRules)
    masks: MaskRules = field(default_factory=MaskRules)
    write_audit_line: Callable[[str], None] | None = None
    kubernetes: str = ""
    kubernetes_namespace: str = ""
    login: str = NO_LOGIN
    oidc: OidcSettings | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be served safely. Raises: ConsoleSettingsError."""
        prefix = self.path_prefix
        if prefix and (not prefix.startswith("/") or prefix.endswith("/") or "//" in prefix):
            raise ConsoleSettingsError(f"path prefix {prefix!r}: write it as '/console'")
        if self.login not in LOGINS:
            raise ConsoleSettingsError(f"login {self.login!r}: choose of {', '.join(LOGINS)}")
        if (self.login == OIDC) != (self.oidc is not None):
            raise ConsoleSettingsError(
                "the login 'oidc' and its provider go together: give --login oidc, --oidc-issuer"
                " and --oidc-client-id"
            )
        is_only_here = self.is_loopback and not self.allowed_hosts
        if self.oidc is not None and not self.oidc.address and not is_only_here:
            raise ConsoleSettingsError(
                "the provider sends browsers back to one address: name it by --oidc-address"
            )
        if not self.is_loopback and self.login == NO_LOGIN:
            raise ConsoleSettingsError(
                f"{self.host or 'every address'} can be reached by others, and nobody would have to"
                " log in: listen on 127.0.0.1, or choose a login"
            )

    @property
    def is_loopback(self) -> bool:
        """Whether this machine alone can connect."""
        return is_loopback(self.host)
