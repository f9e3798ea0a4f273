"""Makes what verifies the bearer tokens of a listener, from its settings.

Loaded only where a listener has OAUTHBEARER: the modules behind it take long to import.
"""

from __future__ import annotations

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.oauthbearer_settings import (
    SERVICE_ACCOUNT_PREFIX,
    OAuthBearerSettings,
)
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.http_client import HttpClient, TlsSettings
from barnabas_broker.env.kubernetes_api import KubernetesAccess, KubernetesApi, server_of_pod
from barnabas_broker.network.bearer_tokens import BearerTokens
from barnabas_broker.network.login_work import LoginWork
from barnabas_broker.network.signing_keys import (
    FileKeys,
    KeySource,
    RefreshTimes,
    ServiceAccountKeys,
    SigningKeys,
    UrlKeys,
)
from barnabas_broker.network.token_reviews import TokenReviews
from barnabas_protocol.web_tokens.token_rules import TokenRules


def make_bearer_tokens(
    settings: OAuthBearerSettings,
    config: BrokerConfig,
    work: LoginWork,
    disk: Disk,
    clock: Clock,
) -> BearerTokens:
    """What verifies tokens by the settings of a listener. Raises: ConfigError."""
    reviews: TokenReviews | None = None
    location = settings.keys
    source: KeySource
    if location is None:
        source = ServiceAccountKeys(_api_server(config, disk, clock))
        if settings.has_token_review:
            reviews = TokenReviews(_api_server(config, disk, clock), settings.audiences, clock)
    elif location.path is not None:
        source = FileKeys(disk, location.path)
    else:
        assert location.url is not None
        source = UrlKeys(HttpClient(TlsSettings(location.authority_file)), location.url)
    times = RefreshTimes(
        refresh_ms=settings.refresh_ms,
        retry_ms=settings.retry_ms,
        retry_ms_max=settings.retry_ms_max,
    )
    rules = TokenRules(
        issuers=frozenset(settings.issuers),
        audiences=frozenset(settings.audiences),
        algorithms=frozenset(settings.algorithms),
        skew_ms=settings.skew_ms,
        name_claim=settings.name_claim,
        name_prefix=SERVICE_ACCOUNT_PREFIX if location is None else "",
    )
    # A file that cannot be used is nobody's passing trouble.
    must_load = location is not None and location.path is not None
    keys = SigningKeys(source, clock, times)
    return BearerTokens(keys, rules, work, clock, reviews, must_load=must_load)


def _api_server(config: BrokerConfig, disk: Disk, clock: Clock) -> KubernetesApi:
    server = config.arbiter_kubernetes_server or server_of_pod()
    if server is None:
        raise ConfigError(
            "barnabas.oauthbearer.service.accounts: arbiter.kubernetes.server is needed outside of "
            "a pod"
        )
    return KubernetesApi(
        disk,
        clock,
        KubernetesAccess(
            server=server,
            token_file=config.arbiter_kubernetes_token_file or None,
            authority_file=config.arbiter_kubernetes_ca_file or None,
            request_timeout_ms=config.arbiter_request_timeout_ms,
        ),
    )
