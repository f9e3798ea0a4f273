"""The files that a User's clients connect with, ready to be mounted (SEC-85). Pure.

Paths in them begin with the place where the Secret is mounted, so that clients which follow their
files get renewed certificates by themselves. Formats: Java's properties (our command line reads
them, too), librdkafka's settings, and variables of an environment.

Invariant: the same input gives the same text, so nothing is written while nothing changes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from barnabas_operator.certificates.authority import KeyPair
from barnabas_operator.reconcile.user.broker_access import BrokerAccess
from barnabas_operator.user_spec import Authentication, UserSpec

_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
TOKEN_DIRECTORY = "/var/run/secrets/barnabas"
TOKEN_SECONDS = 3600


def certificate_files(spec: UserSpec, access: BrokerAccess, pair: KeyPair) -> dict[str, str]:
    """For a client that logs in by its certificate."""
    home = spec.mount_path
    java = {
        **_common(spec, access, access.certificate_servers, "SSL"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{home}/user.pem",
    }
    native = {
        **_native(spec, access.certificate_servers, "SSL"),
        "ssl.certificate.location": f"{home}/user.crt",
        "ssl.key.location": f"{home}/user.key",
    }
    return {
        **_basic(access, access.certificate_servers),
        "user.crt": pair.chain,
        "user.key": pair.key,
        # Java reads key and chain from one file.
        "user.pem": pair.key + pair.chain,
        **_texts(java, native),
    }


def password_files(spec: UserSpec, access: BrokerAccess, password: str) -> dict[str, str]:
    """For a client that logs in by its password."""
    quoted = f'username="{_quoted(spec.name)}" password="{_quoted(password)}"'
    java = {
        **_common(spec, access, access.servers, "SASL_SSL"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"{_SCRAM_MODULE} required {quoted};",
    }
    native = {
        **_native(spec, access.servers, "SASL_SSL"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": spec.name,
        "sasl.password": password,
    }
    return {
        **_basic(access, access.servers),
        "username": spec.name,
        "password": password,
        **_texts(java, native),
    }


def token_files(spec: UserSpec, access: BrokerAccess) -> dict[str, str]:
    """For pods of a ServiceAccount: no secret is in it (SEC-29, SEC-101)."""
    token = f"{TOKEN_DIRECTORY}/token"
    java = {
        **_common(spec, access, access.servers, "SASL_SSL"),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{_OAUTH_MODULE} required;",
        "sasl.login.callback.handler.class": _OAUTH_HANDLER,
        # Besides, Java wants -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls with this address.
        "sasl.oauthbearer.token.endpoint.url": f"file:{token}",
    }
    native = {**_native(spec, access.servers, "SASL_SSL"), "sasl.mechanism": "OAUTHBEARER"}
    return {
        **_basic(access, access.servers),
        **_texts(java, native),
        "pod.yaml": _pod_snippet(spec, access),
    }


def _basic(access: BrokerAccess, servers: str) -> dict[str, str]:
    return {"bootstrap.servers": servers, "ca.crt": access.bundle}


def _common(spec: UserSpec, access: BrokerAccess, servers: str, protocol: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{spec.mount_path}/ca.crt",
    }


def _native(spec: UserSpec, servers: str, protocol: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": protocol,
        "ssl.ca.location": f"{spec.mount_path}/ca.crt",
    }


def _texts(java: Mapping[str, str], native: Mapping[str, str]) -> dict[str, str]:
    """The three forms of the same settings."""
    return {
        "client.properties": "".join(f"{key}={_property(java[key])}\n" for key in sorted(java)),
        "librdkafka.conf": "".join(f"{key}={native[key]}\n" for key in sorted(native)),
        "client.env": "".join(
            f"KAFKA_{key.upper().replace('.', '_')}={native[key]}\n" for key in sorted(native)
        ),
    }


def _property(value: str) -> str:
    """A value of a properties file, which takes a backslash for an escape."""
    return value.replace("\\", "\\\\")


def _quoted(text: str) -> str:
    """A text between the quotes of JAAS."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _pod_snippet(spec: UserSpec, access: BrokerAccess) -> str:
    """What to add to a pod, as YAML."""
    assert spec.service_account is not None
    return f"""\
# Add this to a pod of the ServiceAccount {spec.service_account[1]}.
spec:
  serviceAccountName: {spec.service_account[1]}
  containers:
    - name: YOUR-CONTAINER
      volumeMounts:
        - {{name: barnabas-token, mountPath: {TOKEN_DIRECTORY}, readOnly: true}}
        - {{name: barnabas, mountPath: {spec.mount_path}, readOnly: true}}
  volumes:
    - name: barnabas-token
      projected:
        sources:
          - serviceAccountToken:
              audience: {access.audience}
              expirationSeconds: {TOKEN_SECONDS}
              path: token
    - name: barnabas
      configMap:
        name: {spec.secret}
"""


def needs_secret(authentication: Authentication) -> bool:
    """Whether what a client needs is secret."""
    return authentication in (Authentication.TLS, Authentication.SCRAM_SHA_512)


def file_data(files: Mapping[str, str], *, is_secret: bool) -> dict[str, Any]:
    """The files as the data of a Secret or a ConfigMap."""
    if not is_secret:
        return dict(files)
    return {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
