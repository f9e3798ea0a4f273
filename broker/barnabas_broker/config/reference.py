"""Writes `docs/reference/configuration.md` from the tables of settings.

Run as `python -m barnabas_broker.config.reference [FILE]`. Not imported by the broker. A test
compares the file with what this prints, so that the two cannot drift apart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from barnabas_broker.config import (
    broker_settings,
    cluster_settings,
    ignored_settings,
    log_settings,
)
from barnabas_broker.config.admin_settings import ADMIN
from barnabas_broker.config.arbiter_settings import ARBITER
from barnabas_broker.config.audit_settings import AUDIT
from barnabas_broker.config.authorizer_settings import AUTHORIZER
from barnabas_broker.config.consumer_group_settings import CONSUMER_GROUP_SETTINGS
from barnabas_broker.config.definitions import (
    DEFAULT_ONLY,
    IGNORED,
    INT,
    LONG,
    SHORT,
    USED,
    BrokerSetting,
)
from barnabas_broker.config.group_settings import GROUP_SETTINGS
from barnabas_broker.config.sasl_settings import CREDENTIALS, SASL
from barnabas_broker.config.share_coordinator_settings import SHARE_COORDINATOR_SETTINGS
from barnabas_broker.config.share_group_settings import SHARE_GROUP_SETTINGS
from barnabas_broker.config.tls_settings import HANDSHAKES, TLS
from barnabas_broker.config.topic_settings import TOPIC_SETTINGS
from barnabas_protocol.settings.reference import Columns, name_cell, table

DEFAULT_PATH = "docs/reference/configuration.md"

_INTRODUCTION = """\
# Configuration reference

This file is written by `python -m barnabas_broker.config.reference`; change the tables in
`broker/barnabas_broker/config/` instead.

Settings have Kafka's names, types, ranges and, unless a row says otherwise, Kafka 4.1's defaults.
They are given in a properties file (`barnabas broker --config FILE`) or one by one
(`--set key=value`). A key that is not listed here is refused, and the nearest one is named.

**Change** says how a value may change while a broker runs (`kafka-configs --alter`): not at all
(read-only), for one broker (per-broker), or for one or all brokers (cluster-wide). The value in
force is the first one found of: the topic's override, the dynamic value of the broker, the dynamic
value of all brokers, the file, the default.

Settings of TLS may be given for one listener: `listener.name.<listener in lower case>.<key>` comes
before `<key>`.
"""

_UNITS = ("ms", "minutes", "hours", "seconds", "bytes")
_GROUPS = (
    ("Identity", broker_settings.IDENTITY),
    ("Network", broker_settings.NETWORK),
    ("TLS", TLS),
    ("Handshakes and log-in", HANDSHAKES),
    ("Topics", broker_settings.TOPICS),
    ("Logs", log_settings.LOG),
    ("Compaction", log_settings.CLEANER),
    ("Groups and offsets", broker_settings.GROUPS),
    ("Consumer groups", CONSUMER_GROUP_SETTINGS),
    ("Share groups", SHARE_GROUP_SETTINGS),
    ("Coordinator of share groups", SHARE_COORDINATOR_SETTINGS),
    ("Producers", broker_settings.PRODUCERS),
    ("Transactions", broker_settings.TRANSACTIONS),
    ("Liveness of brokers", cluster_settings.LIVENESS),
    ("Leadership", cluster_settings.LEADERSHIP),
    ("Replication", cluster_settings.REPLICATION),
    ("Control plane (Barnabas only)", cluster_settings.CONTROL_PLANE),
    ("Brokers among themselves (Barnabas only)", cluster_settings.IDENTITY),
    ("Metadata", broker_settings.METADATA),
    ("Barnabas only", broker_settings.OWN),
    ("Arbiter (Barnabas only)", ARBITER),
    ("Log-in", (*SASL, *CREDENTIALS)),
    ("Rights", AUTHORIZER),
    ("Audit log (Barnabas only)", AUDIT),
    ("Admin HTTP (Barnabas only)", ADMIN),
)


def render() -> str:
    """The whole document."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield "## Topic settings"
    yield ""
    yield "**Broker keys** are where a topic without an override takes the value from."
    yield ""
    used = [setting for setting in TOPIC_SETTINGS if setting.support == USED]
    yield from _table(used, with_broker_keys=True)
    yield ""
    yield "Known, reported and without an effect:"
    yield ""
    for setting in TOPIC_SETTINGS:
        if setting.support != USED:
            yield _ignored_line(setting)
    yield ""
    yield "## Group settings"
    yield ""
    yield "Those of streams groups are kept and reported; such groups are not served."
    yield ""
    yield from _table(GROUP_SETTINGS, with_broker_keys=True)
    yield ""
    yield "## Broker settings"
    for title, settings in _GROUPS:
        yield ""
        yield f"### {title}"
        yield ""
        yield from _table(settings)
    yield ""
    yield "## Broker settings without an effect"
    yield ""
    yield "They are accepted, checked for their type, and reported as Kafka reports them."
    for why, group in _by_reason(ignored_settings.IGNORED_SETTINGS):
        yield ""
        yield why + (" Only the default is accepted:" if group[0].support == DEFAULT_ONLY else "")
        yield ""
        yield ", ".join(f"`{setting.name}`" for setting in group)


def _by_reason(settings: Iterable[BrokerSetting]) -> Iterator[tuple[str, list[BrokerSetting]]]:
    groups: dict[str, list[BrokerSetting]] = {}
    for setting in settings:
        groups.setdefault(setting.why, []).append(setting)
    yield from groups.items()


def _table(settings: Iterable[BrokerSetting], with_broker_keys: bool = False) -> Iterator[str]:
    last: Columns[BrokerSetting] = {"Change": lambda setting: setting.update}
    if with_broker_keys:
        last = {
            "Broker keys": lambda setting: " ".join(f"`{key}`" for key, _ in setting.broker_keys)
        }
    columns: Columns[BrokerSetting] = {
        "Key": name_cell,
        "Type": lambda setting: setting.kind.name,
        "Default": _default,
        "Valid": lambda setting: setting.range_text,
        "Unit": _unit,
        **last,
        "Why": lambda setting: setting.why,
    }
    yield from table(settings, columns)


def _unit(setting: BrokerSetting) -> str:
    """The unit of the value, taken from the key, or an empty string."""
    if setting.kind not in (INT, SHORT, LONG):
        return ""
    words = setting.name.split(".")
    return next((unit for unit in _UNITS if unit in words), "")


def _default(setting: BrokerSetting) -> str:
    if setting.default is None:
        return "unset"
    return f"`{setting.default}`" if setting.default else "empty"


def _ignored_line(setting: BrokerSetting) -> str:
    note = " Only the default is accepted." if setting.support == DEFAULT_ONLY else ""
    assert setting.support in (IGNORED, DEFAULT_ONLY)
    return f"- `{setting.name}` ({_default(setting)}): {setting.why}{note}"


def main(arguments: list[str]) -> None:
    """Write the document to the file named, or to its place in the repository."""
    path = Path(arguments[0] if arguments else DEFAULT_PATH)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
