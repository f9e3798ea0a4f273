"""What each act of a page needs, as ACLs have it, and how a missing right is told. Pure.

The needs are those of Kafka's APIs. Not here: which rights somebody has (`held.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas_client.facts.access_facts import word_of
from barnabas_client.facts.command_lines import command_line
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode

CLUSTER_NAME: Final = "kafka-cluster"
REFUSALS: Final = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""What a request is told that lacks a right to a resource of a type."""


@dataclass(frozen=True, slots=True)
class Need:
    """One operation on one resource."""

    operation: AclOperation
    resource_type: AclResourceType
    name: str

    @classmethod
    def of_cluster(cls, operation: AclOperation) -> Need:
        """Of the cluster."""
        return cls(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    @classmethod
    def of_topic(cls, operation: AclOperation, name: str) -> Need:
        """Of a topic."""
        return cls(operation, AclResourceType.TOPIC, name)

    @classmethod
    def of_group(cls, operation: AclOperation, name: str) -> Need:
        """Of a group, of any kind."""
        return cls(operation, AclResourceType.GROUP, name)


AnyOf = tuple[Need, ...]
"""Each of these rights will do; the first is the one that is told to be missing."""


def lock_of(principal: str, needed: AnyOf) -> dict[str, Any]:
    """What a page shows of a missing right: a sentence, and who can change it, how."""
    first = needed[0]
    operation, kind = word_of(first.operation), word_of(first.resource_type)
    is_cluster = first.resource_type is AclResourceType.CLUSTER
    thing = "the cluster" if is_cluster else f"{kind} {first.name}"
    options = ["--resource", kind, *(() if is_cluster else ("--name", first.name))]
    return {
        "words": f"{principal} may not {operation} {thing}: no ACL allows it, or one denies it",
        "command": command_line("acl create", principal, operation, options=options),
        "explain_command": command_line("acl explain", principal, operation, options=options),
        "missing": {
            "principal": principal,
            "operation": operation,
            "resource_type": kind,
            "resource_name": first.name,
        },
    }


def acts_on_cluster() -> Mapping[str, AnyOf]:
    """What pages of the cluster offer."""
    return {
        "change-acls": (Need.of_cluster(AclOperation.ALTER),),
        "change-quotas": (Need.of_cluster(AclOperation.ALTER_CONFIGS),),
    }


def acts_on_topic(name: str) -> Mapping[str, AnyOf]:
    """What pages of a topic offer."""
    return {
        "produce": needed_to_write(name),
        "alter-partitions": (
            Need.of_topic(AclOperation.ALTER, name),
            Need.of_cluster(AclOperation.ALTER),
        ),
        "alter-settings": (Need.of_topic(AclOperation.ALTER_CONFIGS, name),),
        "delete-records": (Need.of_topic(AclOperation.DELETE, name),),
        "delete-topic": delete_topic(name),
    }


def needed_to_write(name: str) -> AnyOf:
    """Without it a producer gets no id either, and is told that of the cluster."""
    return (Need.of_topic(AclOperation.WRITE, name),)


def delete_topic(name: str) -> AnyOf:
    """Who may delete from the cluster may delete every topic."""
    return (Need.of_topic(AclOperation.DELETE, name), Need.of_cluster(AclOperation.DELETE))


def acts_on_group(name: str) -> Mapping[str, AnyOf]:
    """What pages of a group offer."""
    return {
        "reset-offsets": (Need.of_group(AclOperation.READ, name),),
        "delete-group": (Need.of_group(AclOperation.DELETE, name),),
    }
