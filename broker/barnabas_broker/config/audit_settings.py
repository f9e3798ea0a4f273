"""The settings of the audit log. Rows as in `broker_settings`; only Barnabas knows them."""

from __future__ import annotations

from typing import Final

from barnabas_broker.config.definitions import LONG, STRING, BrokerSetting

_S = BrokerSetting
AUTO: Final = "auto"
ON: Final = "on"
OFF: Final = "off"

AUDIT: Final = (
    _S(
        "barnabas.audit",
        STRING,
        AUTO,
        "Whether log-ins, denials and changes are written to the audit log; auto means where there "
        "is an authorizer, or a listener that is not PLAINTEXT.",
        choices=(AUTO, ON, OFF),
    ),
    _S(
        "barnabas.audit.file",
        STRING,
        None,
        "The file of the audit log, a line of JSON for each event; unset means that lines go to "
        "the log of the broker, by the logger barnabas.audit.",
    ),
    _S(
        "barnabas.audit.file.bytes.max",
        LONG,
        "104857600",
        "Bytes of that file; then another is begun, and the last four are kept.",
        65536,
    ),
)
