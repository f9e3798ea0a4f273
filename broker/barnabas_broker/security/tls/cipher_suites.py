"""`ssl.cipher.suites` for OpenSSL: names as Java or OpenSSL spells them (SEC-3).

Suites of TLS 1.3 cannot be chosen one by one by Python's ssl. So where TLS 1.3 is spoken a list has
to name all three of them: what cannot be kept to is refused, not ignored.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Final

from barnabas_broker.config.definitions import ConfigError

TLS_1_3: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_JAVA: Final = re.compile(
    r"TLS_(?:(?P<exchange>ECDHE|DHE)_)?(?P<signature>RSA|ECDSA)_WITH_"
    r"(?P<cipher>AES_128|AES_256|CHACHA20_POLY1305)(?:_(?P<mode>GCM|CBC))?_(?P<hash>SHA\d*)"
)


def openssl_ciphers(suites: Sequence[str], protocols: Sequence[str]) -> str | None:
    """What `SSLContext.set_ciphers` takes for the suites; None where TLS 1.2 is not spoken.

    Raises: ConfigError for one that OpenSSL does not know, and for a choice among those of TLS 1.3.
    """
    older = [suite for suite in suites if suite not in TLS_1_3]
    newer = {suite for suite in suites if suite in TLS_1_3}
    if "TLSv1.3" in protocols and newer != set(TLS_1_3):
        raise ConfigError(
            "ssl.cipher.suites: those of TLS 1.3 cannot be chosen one by one here; name all of "
            f"{', '.join(TLS_1_3)}, or set ssl.enabled.protocols=TLSv1.2"
        )
    if "TLSv1.2" not in protocols:
        if older:
            raise ConfigError(
                f"ssl.cipher.suites: {older[0]} is not of TLS 1.3, and no other version is enabled"
            )
        return None
    if not older:
        raise ConfigError(
            "ssl.cipher.suites: no suite of TLS 1.2 is named; set ssl.enabled.protocols=TLSv1.3"
        )
    return ":".join(_known(suite) for suite in older)


def _known(suite: str) -> str:
    name = openssl_name(suite)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.set_ciphers(name)
        known = {cipher["name"] for cipher in context.get_ciphers()}
    except ssl.SSLError:
        known = set()
    # Words such as ALL or @SECLEVEL=0 are no suites, and would weaken what is chosen.
    if name not in known:
        raise ConfigError(f"ssl.cipher.suites: {suite} is no suite that OpenSSL has")
    return name


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2; what is not Java's spelling stays as it is."""
    found = _JAVA.fullmatch(suite)
    if found is None:
        return suite
    exchange, signature = found["exchange"], found["signature"]
    parts = [f"{exchange}-{signature}"] if exchange else []
    parts.append(found["cipher"].replace("AES_", "AES").replace("_", "-"))
    if found["mode"] == "GCM":
        parts.append("GCM")
    if "CHACHA20" not in suite:
        parts.append(found["hash"])
    return "-".join(parts)
