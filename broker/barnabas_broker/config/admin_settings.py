"""The rows of the settings of the admin HTTP: where it is, and who may ask what (SEC-63).

With `admin.http.protocol=https` its certificate is that of a listener called ADMIN:
`listener.name.admin.ssl.*`, else `ssl.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from barnabas_broker.config.definitions import INT, STRING, BrokerSetting, ConfigError
from barnabas_broker.config.listener_properties import ListenerProperties
from barnabas_broker.config.tls_settings import ListenerTlsSettings, tls_settings

_S = BrokerSetting
ADMIN_LISTENER: Final = "ADMIN"
HTTP: Final = "http"
HTTPS: Final = "https"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")

ADMIN: Final = (
    _S("admin.http.host", STRING, "127.0.0.1", "Address of the admin HTTP server."),
    _S("admin.http.port", INT, "9644", "Port of the admin HTTP server; -1 for none.", -1, 65535),
    _S(
        "admin.http.protocol",
        STRING,
        HTTP,
        "https has the certificate of listener.name.admin.ssl.*, else of ssl.*; then /live and "
        "/ready are open, and everything else is for admin.http.principals and who has a token.",
        choices=(HTTP, HTTPS),
    ),
    _S(
        "admin.http.principals",
        STRING,
        "",
        "Who may use the admin HTTP by a client certificate, or by a token of a ServiceAccount: "
        "principals as User:CN=operator, with `;` between them.",
    ),
    _S(
        "admin.http.token.file",
        STRING,
        None,
        "A file of bearer tokens for the admin HTTP, one a line, read anew when it changes; not "
        "without https but on the loopback address.",
    ),
    _S(
        "admin.http.token.listener",
        STRING,
        None,
        "A listener with OAUTHBEARER: what it takes as a token, as those of ServiceAccounts, the "
        "admin HTTP takes as well, of admin.http.principals alone.",
    ),
    _S(
        "admin.http.socket",
        STRING,
        None,
        "A Unix socket for the admin HTTP besides the port, for preStop hooks: who may open the "
        "file may use it.",
    ),
    _S(
        "console.url",
        STRING,
        None,
        "Where the console is (`barnabas console`): `/` of the admin HTTP sends browsers there.",
    ),
)


def join_admin(values: dict[str, Any]) -> None:
    """Make the principals single ones. Raises: ConfigError."""
    users = [part.strip() for part in values["admin_http_principals"].split(";")]
    for user in filter(None, users):
        kind, separator, name = user.partition(":")
        if not (kind and separator and name) or name == "*":
            raise ConfigError(
                f"admin.http.principals: {user!r} is not of the form Type:name, as User:CN=operator"
            )
    url = values["console_url"]
    if url is not None and not (url.startswith(("http://", "https://")) and url.isprintable()):
        raise ConfigError(f"console.url: {url!r} is no address as https://console.example/")
    values["admin_http_principals"] = tuple(dict.fromkeys(filter(None, users)))
    if values["admin_http_protocol"] == HTTPS:
        return
    for key in ("admin.http.principals", "admin.http.token.listener"):
        if values[key.replace(".", "_")]:
            raise ConfigError(f"{key}: it needs admin.http.protocol=https")
    if values["admin_http_token_file"] and values["admin_http_host"] not in _LOOPBACK:
        raise ConfigError(
            "admin.http.token.file: a token is for everybody to read on the way to "
            f"{values['admin_http_host'] or 'every address'}: set admin.http.protocol=https"
        )


def check_token_listener(values: Mapping[str, Any]) -> None:
    """Raises: ConfigError where the listener of the admin HTTP's tokens takes none."""
    name = values["admin_http_token_listener"]
    if name is None:
        return
    sasl = values["sasl"].get(name.upper())
    if sasl is None or sasl.tokens is None:
        raise ConfigError(f"admin.http.token.listener: {name} is no listener with OAUTHBEARER")


def admin_tls(
    properties: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, ListenerTlsSettings]:
    """What TLS is on the admin HTTP, by its listener's name; empty without.

    Certificates are asked for, where there is something to verify them by, and never demanded:
    probes have none. Raises: ConfigError.
    """
    if values["admin_http_protocol"] != HTTPS:
        return {}
    if any(endpoint.name == ADMIN_LISTENER for endpoint in values["listeners"]):
        raise ConfigError(
            f"listeners: with admin.http.protocol=https {ADMIN_LISTENER} is the admin HTTP"
        )
    own = ListenerProperties(ADMIN_LISTENER, properties).own("ssl.client.auth")
    wanted = "" if own is None else own.strip().lower()
    if wanted == "required":
        raise ConfigError(
            "listener.name.admin.ssl.client.auth: probes show no certificate; requested lets "
            "through who shows none, to /live and /ready"
        )
    unasked = {**properties, "listener.name.admin.ssl.client.auth": "none"}
    settings = tls_settings(ADMIN_LISTENER, "SSL", unasked, is_of_brokers=False)
    by_certificate = values["admin_http_principals"] and not values["admin_http_token_listener"]
    if (wanted == "requested" or by_certificate) and not settings.has_anchors:
        raise ConfigError(
            "admin.http.principals: certificates are verified by listener.name.admin."
            "ssl.truststore.location or ssl.truststore.location"
        )
    is_asked = wanted != "none" and settings.has_anchors
    return {ADMIN_LISTENER: replace(settings, client_auth="requested" if is_asked else "none")}
