"""Whose log directories these are: one cluster id and node id for all, one directory id for each.

Not here: the registration with the controller. Source: behaviour NODE-1 to NODE-3, NODE-6, NODE-8.
Invariant: a directory with partitions but without an identity is never adopted, and an identity is
never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas_broker.log.log_directory import LogDirectory
from barnabas_broker.log.properties_files import MetaProperties, write_meta_properties
from barnabas_protocol.ids import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk
    from barnabas_broker.env.randomness import Random


class IdentityError(Exception):
    """The log directories do not belong to this broker or not to each other: refuse to start."""


class Identity(NamedTuple):
    """Whose the log directories are."""

    cluster_id: str
    node_id: int


class NoLogDirectoryError(Exception):
    """Every log directory is offline: there is nothing to run on."""


def establish_identity(
    directories: Sequence[LogDirectory],
    disk: Disk,
    random: Random,
    node_id: int,
    cluster_id: str | None,
) -> Identity:
    """Lock all directories, verify or write their identity, and return it.

    `node_id` below 0 takes the id that is on disk; `cluster_id` None takes the one on disk, or
    makes a new one if no directory has any.
    Raises: IdentityError, LogDirectoryLockedError, CheckpointError, NoLogDirectoryError.
    """
    found = {directory.path: directory.open() for directory in directories}
    usable = [directory for directory in directories if not directory.is_offline]
    if not usable:
        raise NoLogDirectoryError(
            "no log directory can be used: "
            + "; ".join(f"{directory.path}: {directory.error}" for directory in directories)
        )
    identities = [identity for identity in found.values() if identity is not None]
    known_node_id = _agreed_node_id(identities, node_id)
    known_cluster_id = _agreed_cluster_id(identities, cluster_id)
    if known_cluster_id is None:
        known_cluster_id = uuid_to_text(random.uuid())
    _refuse_shared_directory_ids(identities)
    for directory in usable:
        identity = found[directory.path]
        if identity is None:
            _refuse_foreign_data(directory)
        if identity is None or identity.directory_id == ZERO_UUID or identity.cluster_id is None:
            _format(directory, disk, random, known_cluster_id, known_node_id)
    if all(directory.is_offline for directory in directories):
        raise NoLogDirectoryError("no log directory can be written")
    return Identity(known_cluster_id, known_node_id)


def _agreed_node_id(identities: Sequence[MetaProperties], node_id: int) -> int:
    on_disk = {identity.node_id for identity in identities if identity.node_id is not None}
    if len(on_disk) > 1:
        raise IdentityError(f"the log directories carry different node ids: {sorted(on_disk)}")
    if node_id < 0:
        if not on_disk:
            raise IdentityError("node.id is not set and no log directory has one")
        return on_disk.pop()
    if on_disk and node_id not in on_disk:
        raise IdentityError(
            f"node.id is {node_id} but the log directories belong to node {on_disk.pop()}"
        )
    return node_id


def _agreed_cluster_id(identities: Sequence[MetaProperties], cluster_id: str | None) -> str | None:
    on_disk = {identity.cluster_id for identity in identities if identity.cluster_id is not None}
    if len(on_disk) > 1:
        raise IdentityError(f"the log directories carry different cluster ids: {sorted(on_disk)}")
    if not on_disk:
        return cluster_id
    (known,) = on_disk
    if cluster_id is not None and cluster_id != known:
        raise IdentityError(
            f"the cluster id is {cluster_id} but the log directories belong to cluster {known}"
        )
    return known


def _refuse_shared_directory_ids(identities: Sequence[MetaProperties]) -> None:
    ids = [i.directory_id for i in identities if i.directory_id != ZERO_UUID]
    if len(ids) != len(set(ids)):
        raise IdentityError("two log directories carry the same directory id: one is a copy")


def _refuse_foreign_data(directory: LogDirectory) -> None:
    """Raise for a directory that has partitions but does not say whose they are."""
    try:
        partitions = directory.partition_directories()
    except OSError as error:
        directory.fail(error)
        return
    if partitions:
        raise IdentityError(
            f"{directory.path} holds partitions but no meta.properties: it is not this broker's"
        )


def _format(
    directory: LogDirectory, disk: Disk, random: Random, cluster_id: str, node_id: int
) -> None:
    if directory.is_offline:
        return
    if directory.directory_id == ZERO_UUID:
        directory.directory_id = random.uuid()
    properties = MetaProperties(
        cluster_id=cluster_id, node_id=node_id, directory_id=directory.directory_id
    )
    try:
        write_meta_properties(disk, directory.meta_properties_path, properties)
    except OSError as error:
        directory.fail(error)
