"""What Java's client and librdkafka call the settings of security, as settings of this client.

Pure. One connection can so be described once, for programs of every kind: `ssl.truststore.location`
(Java) and `ssl.ca.location` (librdkafka) are `ssl_cafile` here, a JAAS line is a name and a
password. Dots and underscores mean the same. What is not in the tables is left as it is, for the
rows to accept or to refuse with the nearest name.

Not here: reading a file of such names (`properties_file.py`).
Invariants: nothing that protects is dropped in silence: what cannot be had here is refused, with
what to do instead; no error repeats a password or a token.
Source: the security settings of Kafka's Java client and of librdkafka (CONFIGURATION.md); KIP-651
(PEM stores).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from barnabas_client.errors import ConfigurationError

SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
SASL_MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS, OAUTHBEARER)

_RENAMED: Final = {
    "metadata_broker_list": "bootstrap_servers",
    "sasl_mechanisms": "sasl_mechanism",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "ssl_truststore_certificates": "ssl_ca_pem",
    "ssl_keystore_certificate_chain": "ssl_certificate_pem",
    "ssl_keystore_key": "ssl_key_pem",
}
_STORES: Final = {"ssl_truststore_location": "ssl_cafile", "ssl_keystore_location": "ssl_certfile"}
_STORE_TYPES: Final = ("ssl_truststore_type", "ssl_keystore_type")
_STORE_PASSWORDS: Final = ("ssl_truststore_password", "ssl_keystore_password")
# Classes of Java that do what this client does by itself.
_CLASSES: Final = ("sasl_login_callback_handler_class", "sasl_client_callback_handler_class")
_SPECIAL: Final = (
    "sasl_jaas_config",
    "sasl_oauthbearer_token_endpoint_url",
    "sasl_oauthbearer_method",
    "enable_ssl_certificate_verification",
    "ssl_endpoint_identification_algorithm",
)
SPELLINGS: Final = frozenset(
    {*_RENAMED, *_STORES, *_STORE_TYPES, *_STORE_PASSWORDS, *_CLASSES, *_SPECIAL}
)
"""What is understood besides the names of the rows, with underscores."""

_LOGIN_MODULES: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": SCRAM_MECHANISMS,
    "OAuthBearerLoginModule": (OAUTHBEARER,),
}
_JAAS_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
_HOW_TO_CONVERT: Final = (
    "convert a trust store with 'keytool -list -rfc -keystore FILE > ca.pem', a key store to "
    "PKCS12 with 'keytool -importkeystore' and then with 'openssl pkcs12 -in FILE -out key.pem'"
)
_BINARY_STORES: Final = (".jks", ".p12", ".pfx", ".keystore", ".truststore")


def respelled(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings under the names of this client's rows, with underscores.

    Raises: ConfigurationError for what this client does not do, and for one that is given twice.
    """
    found: dict[str, Any] = {}
    mechanism = _mechanism(values)
    for spelled, value in values.items():
        name = str(spelled).replace(".", "_")
        for translated, text in _translated(str(spelled), name, value, mechanism).items():
            if translated in found and found[translated] != text:
                raise ConfigurationError(f"{translated} is given twice")
            found[translated] = text
    return found


def _mechanism(values: Mapping[str, Any]) -> str | None:
    for name in ("sasl_mechanism", "sasl.mechanism", "sasl_mechanisms", "sasl.mechanisms"):
        if values.get(name):
            return str(values[name]).strip().upper()
    return None


def _translated(spelled: str, name: str, value: Any, mechanism: str | None) -> dict[str, Any]:
    if name == "ssl_ca_location" and str(value).strip().lower() == "probe":
        return {}  # the system's certificates, as by default here
    if name in _RENAMED:
        return {_RENAMED[name]: value}
    if name in _STORES:
        _check_pem(spelled, str(value))
        return {_STORES[name]: value}
    if name in _CLASSES:
        return {}
    if name in _STORE_TYPES:
        if str(value).strip().upper() != "PEM":
            raise ConfigurationError(f"{spelled}={value}: only PEM can be read; {_HOW_TO_CONVERT}")
        return {}
    if name in _STORE_PASSWORDS:
        raise ConfigurationError(
            f"{spelled} is given, but PEM files have none: leave it out; an encrypted key has "
            "ssl.key.password"
        )
    return _special(spelled, name, value, mechanism)


def _special(spelled: str, name: str, value: Any, mechanism: str | None) -> dict[str, Any]:
    """What needs more than another name; other names stay as they are."""
    match name:
        case "sasl_jaas_config":
            return jaas_settings(str(value), mechanism)
        case "sasl_oauthbearer_token_endpoint_url":
            return {"sasl_oauthbearer_token_file": _token_file(spelled, str(value))}
        case "sasl_oauthbearer_method":
            if str(value).strip().lower() != "default":
                raise ConfigurationError(
                    f"{spelled}={value}: this client asks nobody for tokens; give "
                    "sasl_oauthbearer_token_file or sasl_oauthbearer_token_callback"
                )
            return {}
        case "enable_ssl_certificate_verification":
            if str(value).strip().lower() != "true":
                raise ConfigurationError(
                    f"{spelled}={value}: certificates are always verified; name the authority that "
                    "signed the broker's in ssl_cafile"
                )
            return {}
        case "ssl_endpoint_identification_algorithm":
            return {"ssl_check_hostname": _checks_names(spelled, str(value))}
    return {name: value}


def _check_pem(spelled: str, path: str) -> None:
    if path.lower().endswith(_BINARY_STORES):
        raise ConfigurationError(f"{spelled}={path}: only PEM can be read; {_HOW_TO_CONVERT}")


def _checks_names(spelled: str, text: str) -> bool:
    folded = text.strip().lower()
    if folded not in ("", "none", "https"):
        raise ConfigurationError(f"{spelled}={text!r}: it must be https, or empty for no check")
    return folded == "https"


def _token_file(spelled: str, url: str) -> str:
    parts = urlsplit(url.strip())
    if parts.scheme != "file" or not parts.path:
        raise ConfigurationError(
            f"{spelled} does not begin with 'file:': this client asks nobody for tokens; give "
            "sasl_oauthbearer_token_file or sasl_oauthbearer_token_callback"
        )
    return unquote(parts.path)


def jaas_settings(line: str, mechanism: str | None) -> dict[str, str]:
    """What a JAAS line says; the mechanism too, where only one can be meant.

    Raises: ConfigurationError for a login module that is not PLAIN's, SCRAM's or OAUTHBEARER's, or
    that does not go with the mechanism.
    """
    module = line.split(maxsplit=1)[0].rpartition(".")[2] if line.strip() else ""
    possible = _LOGIN_MODULES.get(module)
    if possible is None:
        raise ConfigurationError(
            f"sasl.jaas.config names '{module[:80]}': use PlainLoginModule, ScramLoginModule or "
            "OAuthBearerLoginModule"
        )
    if mechanism is None and len(possible) > 1:
        raise ConfigurationError(
            f"sasl.mechanism is missing: {module} is for {' and '.join(possible)}"
        )
    if mechanism is not None and mechanism not in possible:
        raise ConfigurationError(
            f"sasl.jaas.config names {module}, which is not for sasl.mechanism={mechanism}"
        )
    settings = {"sasl_mechanism": possible[0]} if mechanism is None else {}
    options = {
        match[1]: _unquoted(match[2]) if match[2] is not None else match[3] or match[4] or ""
        for match in _JAAS_OPTION.finditer(line)
    }
    if possible == (OAUTHBEARER,):
        if any(name.startswith("unsecuredLogin") for name in options):
            raise ConfigurationError(
                "sasl.jaas.config asks for a token that nobody signs: give "
                "sasl_oauthbearer_token_file or sasl_oauthbearer_token_callback"
            )
        return settings
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise ConfigurationError(f"sasl.jaas.config has no {' and no '.join(missing)}")
    return {
        **settings,
        "sasl_username": options["username"],
        "sasl_password": options["password"],
    }


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
