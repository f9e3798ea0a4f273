"""Names of cipher suites, in both spellings."""

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.security.tls.cipher_suites import TLS_1_3, openssl_ciphers, openssl_name

BOTH, OLDER, NEWER = ("TLSv1.2", "TLSv1.3"), ("TLSv1.2",), ("TLSv1.3",)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_both_spellings_name_the_same_suite(java: str, openssl: str) -> None:
    """SEC-3: files written for Kafka stay as they are."""
    assert openssl_name(java) == openssl
    assert openssl_ciphers([java], OLDER) == openssl


def test_what_cannot_be_kept_to_is_refused() -> None:
    """SEC-3: suites of TLS 1.3 cannot be narrowed, and OpenSSL skips what it does not know."""
    older = "ECDHE-RSA-AES128-GCM-SHA256"
    assert openssl_ciphers([older, *TLS_1_3], BOTH) == older
    assert openssl_ciphers(TLS_1_3, NEWER) is None
    for suites, protocols, reason in (
        ([older], BOTH, "cannot be chosen one by one"),
        ([older, TLS_1_3[0]], BOTH, "cannot be chosen one by one"),
        (TLS_1_3[:2], NEWER, "cannot be chosen one by one"),
        (TLS_1_3, BOTH, "no suite of TLS 1.2"),
        ([older, *TLS_1_3], NEWER, "not of TLS 1.3"),
        (["ALL"], OLDER, "ALL is no suite"),
        (["@SECLEVEL=0"], OLDER, "is no suite"),
        (["TLS_ECDHE_RSA_WITH_RC4_128_SHA"], OLDER, "is no suite"),
    ):
        with pytest.raises(ConfigError, match=reason):
            openssl_ciphers(suites, protocols)
