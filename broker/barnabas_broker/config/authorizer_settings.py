"""The settings of the authorizer: whether there is one, who is above it, what becomes of denials.

Rows as in `broker_settings`. All are read at the start alone, as Kafka's are: who may change the
settings of brokers must not become a super user by that.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas_broker.config.definitions import BOOLEAN, STRING, BrokerSetting, ConfigError

_S = BrokerSetting
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ENFORCE: Final = "enforce"
AUDIT_ONLY: Final = "audit-only"

AUTHORIZER: Final = (
    _S(
        "authorizer.class.name",
        STRING,
        "",
        "StandardAuthorizer, with or without Kafka's package name, has ACLs say who may do what; "
        "empty means that everybody may do everything.",
        choices=("", STANDARD_AUTHORIZER, "StandardAuthorizer"),
    ),
    _S(
        "super.users",
        STRING,
        "",
        "Who may do everything, whatever ACLs say: principals as User:admin, with `;` between "
        "them.",
    ),
    _S(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        "false",
        "Whether everybody may do everything with a resource that no ACL is about.",
    ),
    _S(
        "barnabas.authorizer.mode",
        STRING,
        ENFORCE,
        "With audit-only everything is allowed, and the audit log tells what ACLs would deny; only "
        "changes of ACLs and credentials, and what brokers ask of one another, need their rights "
        "even so.",
        choices=(ENFORCE, AUDIT_ONLY),
    ),
)


def join_authorizer(values: dict[str, Any]) -> None:
    """Make the super users single ones. Raises: ConfigError."""
    users = [part.strip() for part in values["super_users"].split(";")]
    for user in filter(None, users):
        kind, separator, name = user.partition(":")
        if not (kind and separator and name):
            raise ConfigError(f"super.users: {user!r} is not of the form Type:name, as User:admin")
        if user == "User:*":
            raise ConfigError("super.users: User:* would be a user named `*`, not everybody")
    values["super_users"] = tuple(dict.fromkeys(filter(None, users)))
