"""SaslHandshake (key 17): versions 0-1, never flexible."""

from barnabas_protocol.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, versions=(0, 1)):
    """Request of SaslHandshake."""

    mechanism: str = string()


class SaslHandshakeResponse(Message, versions=(0, 1)):
    """Response of SaslHandshake."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)
