"""SASL for both roles, tokens in, tokens out: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER."""

from barnabas_protocol.connection.sasl.authenticator import (
    Admission,
    CloseConnection,
    Outcome,
    Respond,
    RespondToken,
    SaslServerAuthenticator,
)
from barnabas_protocol.connection.sasl.mechanism import (
    TOKEN_BYTES_MAX,
    Accepted,
    Authenticated,
    Challenge,
    CredentialNeeded,
    HashingNeeded,
    HashingSaslClient,
    PasswordGiven,
    Provision,
    Question,
    SaslClient,
    SaslError,
    SaslServer,
    ScramCredential,
    ScramKeys,
    TokenGiven,
)
from barnabas_protocol.connection.sasl.oauthbearer import (
    OAuthBearerSaslClient,
    OAuthBearerSaslServer,
)
from barnabas_protocol.connection.sasl.plain import PlainSaslClient, PlainSaslServer
from barnabas_protocol.connection.sasl.scram import (
    ScramSaslClient,
    ScramSaslServer,
    decoy_credential,
    salted_password,
    scram_keys,
)

__all__ = [
    "TOKEN_BYTES_MAX",
    "Accepted",
    "Admission",
    "Authenticated",
    "Challenge",
    "CloseConnection",
    "CredentialNeeded",
    "HashingNeeded",
    "HashingSaslClient",
    "OAuthBearerSaslClient",
    "OAuthBearerSaslServer",
    "Outcome",
    "PasswordGiven",
    "PlainSaslClient",
    "PlainSaslServer",
    "Provision",
    "Question",
    "Respond",
    "RespondToken",
    "SaslClient",
    "SaslError",
    "SaslServer",
    "SaslServerAuthenticator",
    "ScramCredential",
    "ScramKeys",
    "ScramSaslClient",
    "ScramSaslServer",
    "TokenGiven",
    "decoy_credential",
    "salted_password",
    "scram_keys",
]
