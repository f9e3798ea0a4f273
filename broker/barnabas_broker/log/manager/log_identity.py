"""Whose log directories these are: one cluster id and node id for all, one directory id for each.

Not here: the registration with the controller. Source: NODE-1 to NODE-3, NODE-6, NODE-8.
Invariants: nothing but locks is written before all directories are known to be this broker's; a
directory with partitions that does not say so is never adopted; an identity is never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.properties_files import MetaProperties, write_meta_properties
from barnabas_protocol.ids import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk
    from barnabas_broker.env.randomness import Random


# What a Barnabas broker's metadata log has beside it, and Apache Kafka's has not: the promise.
OWN_FILE: Final = "__cluster_metadata-0/promised-controller-epoch"


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
    is_ours = any(disk.exists(f"{directory.path}/{OWN_FILE}") for directory in usable)
    for directory in usable:
        _refuse_foreign_data(directory, found[directory.path], is_ours=is_ours)
    for directory in usable:
        identity = found[directory.path]
        is_whole = identity is not None and identity.format > 0
        if identity is None or not is_whole or identity.directory_id == ZERO_UUID:
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


def _refuse_foreign_data(
    directory: LogDirectory, identity: MetaProperties | None, *, is_ours: bool
) -> None:
    """Raise for a directory that has partitions but does not say that they are a Barnabas broker's.

    A release before the mark left none; then the metadata log of the same cluster is the proof.
    """
    if identity is not None and (identity.format > 0 or is_ours):
        return
    try:
        has_partitions = directory.has_partitions()
    except OSError as error:
        directory.fail(error)
        return
    if not has_partitions:
        return
    if identity is None:
        raise IdentityError(
            f"{directory.path} holds partitions but no meta.properties: it is not this broker's"
        )
    raise IdentityError(
        f"{directory.path} holds partitions of another program, as of Apache Kafka: its"
        " meta.properties has no barnabas.format, and there is no metadata log of a Barnabas"
        " broker. Nothing was changed. Give this broker another directory, and take the"
        " partitions over by `barnabas log import`"
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
