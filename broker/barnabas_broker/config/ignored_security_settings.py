"""The rows of the settings of authentication and encryption that have no effect.

Not here: what a row means and why these are ignored; `ignored_settings` takes them in.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.config.definitions import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    SHORT,
    STRING,
    IgnoredRow,
)

SECURITY: Final[tuple[IgnoredRow, ...]] = (
    ("delegation.token.expiry.check.interval.ms", LONG, "3600000", 1, None, READ_ONLY),
    ("delegation.token.expiry.time.ms", LONG, "86400000", 1, None, READ_ONLY),
    ("delegation.token.max.lifetime.ms", LONG, "604800000", 1, None, READ_ONLY),
    ("delegation.token.secret.key", PASSWORD, None, None, None, READ_ONLY),
    ("sasl.client.callback.handler.class", CLASS, None, None, None, READ_ONLY),
    ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, None, PER_BROKER),
    ("sasl.kerberos.min.time.before.relogin", LONG, "60000", None, None, PER_BROKER),
    ("sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT", None, None, PER_BROKER),
    ("sasl.kerberos.service.name", STRING, None, None, None, PER_BROKER),
    ("sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05", None, None, PER_BROKER),
    ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8", None, None, PER_BROKER),
    ("sasl.login.callback.handler.class", CLASS, None, None, None, READ_ONLY),
    ("sasl.login.class", CLASS, None, None, None, READ_ONLY),
    ("sasl.login.connect.timeout.ms", INT, None, None, None, READ_ONLY),
    ("sasl.login.read.timeout.ms", INT, None, None, None, READ_ONLY),
    ("sasl.login.refresh.buffer.seconds", SHORT, "300", None, None, PER_BROKER),
    ("sasl.login.refresh.min.period.seconds", SHORT, "60", None, None, PER_BROKER),
    ("sasl.login.refresh.window.factor", DOUBLE, "0.8", None, None, PER_BROKER),
    ("sasl.login.refresh.window.jitter", DOUBLE, "0.05", None, None, PER_BROKER),
    ("sasl.login.retry.backoff.max.ms", LONG, "10000", None, None, READ_ONLY),
    ("sasl.login.retry.backoff.ms", LONG, "100", None, None, READ_ONLY),
    ("sasl.mechanism.controller.protocol", STRING, "GSSAPI", None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.claim.aud", STRING, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", INT, "300", 0, 86400, READ_ONLY),
    ("sasl.oauthbearer.assertion.claim.iss", STRING, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, "false", None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, "60", 0, 3600, READ_ONLY),
    ("sasl.oauthbearer.assertion.claim.sub", STRING, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.file", STRING, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.private.key.file", STRING, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.assertion.template.file", STRING, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.client.credentials.client.id", STRING, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, None, None, READ_ONLY),
    (
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        None,
        None,
        READ_ONLY,
    ),
    (
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        None,
        None,
        READ_ONLY,
    ),
    ("sasl.oauthbearer.scope", STRING, None, None, None, READ_ONLY),
    ("sasl.oauthbearer.scope.claim.name", STRING, "scope", None, None, READ_ONLY),
    ("sasl.oauthbearer.token.endpoint.url", STRING, None, None, None, READ_ONLY),
    ("sasl.server.callback.handler.class", CLASS, None, None, None, READ_ONLY),
)

JAVA_SECURITY: Final[tuple[IgnoredRow, ...]] = (
    (
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        None,
        None,
        PER_BROKER,
    ),
    ("security.providers", STRING, None, None, None, READ_ONLY),
    ("ssl.engine.factory.class", CLASS, None, None, None, PER_BROKER),
    ("ssl.keymanager.algorithm", STRING, "SunX509", None, None, PER_BROKER),
    ("ssl.keystore.password", PASSWORD, None, None, None, PER_BROKER),
    ("ssl.protocol", STRING, "TLSv1.3", None, None, PER_BROKER),
    ("ssl.provider", STRING, None, None, None, PER_BROKER),
    ("ssl.secure.random.implementation", STRING, None, None, None, PER_BROKER),
    ("ssl.trustmanager.algorithm", STRING, "PKIX", None, None, PER_BROKER),
    ("ssl.truststore.password", PASSWORD, None, None, None, PER_BROKER),
)
