"""The property files that say whose a log directory or partition directory is, and how it was left.

- `meta.properties` in a log directory: cluster id, node id, directory id.
- `partition.metadata` in a partition directory: the topic id.
- `partition.move` in a `-future` directory: of which partition it is a copy.
- `.kafka_cleanshutdown` in a log directory: present only after a clean stop.
- `barnabas.boot` in a log directory: in which boot of the machine, and under which broker epoch, a
  broker last ran on it.

Not here: the checks between several directories or against the configuration (`log_manager`).
Source: Apache Kafka's files, `docs/formats/log.md`. Invariant: every file is replaced atomically,
but for a new `partition.metadata`, which the metadata log can stand in for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from barnabas_broker.log.checkpoints import CheckpointError, integer
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk, DiskDirectory

META_PROPERTIES_FILE = "meta.properties"
PARTITION_METADATA_FILE = "partition.metadata"
MOVE_FILE = "partition.move"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
BOOT_FILE = "barnabas.boot"
LOCK_FILE = ".lock"
DIRECTORY_FORMAT = 1
_FORMAT_KEY = "barnabas.format"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The identity of a log directory. `cluster_id` is None only in a file of version 0.

    `format` is the mark by which a directory is known to be ours, and the newest form of it that
    this release knows; 0 in a file of Apache Kafka, or of a release before the mark.
    """

    cluster_id: str | None
    node_id: int | None
    directory_id: bytes
    format: int = DIRECTORY_FORMAT

    def encode(self) -> bytes:
        """Return the content of `meta.properties`, version 1."""
        return (
            f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n"
            f"directory.id={uuid_to_text(self.directory_id)}\n{_FORMAT_KEY}={DIRECTORY_FORMAT}\n"
        ).encode()


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """Return the identity in this file, None if there is no file.

    `directory_id` is zero when the file has none (written before directories had ids).
    Raises: CheckpointError.
    """
    if not disk.exists(path):
        return None
    values = _properties(path, disk.read_bytes(path))
    if not values:
        raise CheckpointError(path, "it is empty: whose directory this is cannot be known")
    format_ = integer(path, values.get(_FORMAT_KEY, "0"))
    if format_ > DIRECTORY_FORMAT:
        raise CheckpointError(path, f"{_FORMAT_KEY} {format_} is of a newer release of Barnabas")
    version = values.get("version", "0")
    if version not in ("0", "1"):
        raise CheckpointError(path, f"version {version!r} is unknown")
    node_id = values.get("node.id", values.get("broker.id"))
    cluster_id = values.get("cluster.id")
    if version == "1" and (cluster_id is None or node_id is None):
        raise CheckpointError(path, "cluster.id and node.id are required")
    return MetaProperties(
        cluster_id=cluster_id,
        node_id=None if node_id is None else integer(path, node_id),
        directory_id=_uuid(path, values["directory.id"]) if "directory.id" in values else ZERO_UUID,
        format=format_,
    )


def write_meta_properties(disk: Disk, path: str, properties: MetaProperties) -> None:
    """Replace `meta.properties`."""
    disk.write_atomically(path, properties.encode())


def read_topic_id(disk: Disk, path: str) -> bytes | None:
    """Return the topic id in a `partition.metadata` file, None if there is no file.

    Raises: CheckpointError.
    """
    if not disk.exists(path):
        return None
    values: dict[str, str] = {}
    for line in disk.read_bytes(path).decode("utf-8", "replace").splitlines():
        if line.strip():
            name, separator, value = line.partition(":")
            if not separator:
                raise CheckpointError(path, f"line {line!r} is not `name: value`")
            values[name.strip()] = value.strip()
    if values.get("version") != "0":
        raise CheckpointError(path, f"version {values.get('version')!r} is unknown")
    if "topic_id" not in values:
        raise CheckpointError(path, "topic_id is missing")
    return _uuid(path, values["topic_id"])


def write_topic_id(disk: Disk, path: str, topic_id: bytes, *, is_durable: bool = True) -> None:
    """Replace `partition.metadata`; if it need not be durable yet, `sync_topic_id` makes it so."""
    content = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode()
    if is_durable:
        disk.write_atomically(path, content)
        return
    file = disk.open(path, create=True)
    try:
        # Only where there is something to cut: ext4 writes a file out when it is closed if it was
        # ever cut to nothing, even from nothing.
        if file.size():
            file.truncate(0)
        file.write_at(content, 0)
    finally:
        file.close()


class MoveNote(NamedTuple):
    """What a `-future` directory is a copy of, and the name that the original gets at the end."""

    topic_partition: TopicPartition
    replaced: str


def read_move_note(disk: Disk, directory: str) -> MoveNote | None:
    """Return the note in a copy's directory; None if there is none, or it cannot be read."""
    path = f"{directory}/{MOVE_FILE}"
    if not disk.exists(path):
        return None
    try:
        values = _properties(path, disk.read_bytes(path))
        partition = integer(path, values["partition"])
        return MoveNote(TopicPartition(values["topic"], partition), values["replaced"])
    except (CheckpointError, KeyError):
        return None


def write_move_note(disk: Disk, directory: str, note: MoveNote) -> None:
    """Put the note into a copy's directory."""
    topic, partition = note.topic_partition
    text = f"version=0\ntopic={topic}\npartition={partition}\nreplaced={note.replaced}\n"
    disk.write_atomically(f"{directory}/{MOVE_FILE}", text.encode())


def sync_topic_id(disk: Disk, folder: DiskDirectory, log_directory: str) -> None:
    """Make a `partition.metadata` durable, and the partition directory's own name with it.

    Logs that know no topic id have no such file. The names in the partition directory are the
    caller's to sync.
    """
    if folder.exists(PARTITION_METADATA_FILE):
        file = folder.open(PARTITION_METADATA_FILE)
        try:
            file.sync()
        finally:
            file.close()
    disk.sync_directory(log_directory)


class CleanShutdownMarker:
    """The file whose presence means that the last stop flushed and closed every log here."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, log_directory: str) -> None:
        self._disk = disk
        self.path = f"{log_directory}/{CLEAN_SHUTDOWN_FILE}"

    def exists(self) -> bool:
        """Return whether the last stop was clean."""
        return self._disk.exists(self.path)

    def broker_epoch(self) -> int:
        """Return the broker epoch of the run that stopped cleanly, -1 if it is not known."""
        if not self.exists():
            return -1
        try:
            value = json.loads(self._disk.read_bytes(self.path))["brokerEpoch"]
        except (ValueError, KeyError, TypeError):
            # Kafka before 3.6 left an empty file: clean, but the epoch is not proven.
            return -1
        return value if isinstance(value, int) else -1

    def write(self, broker_epoch: int) -> None:
        """Leave the marker, on disk when this returns."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._disk.write_atomically(self.path, content.encode())

    def remove(self) -> None:
        """Take the marker away, on disk before anything is written, so that a crash is seen as
        one.
        """
        if self.exists():
            self._disk.remove(self.path)
            self._disk.sync_directory(self.path.rpartition("/")[0])


class BootMarker:
    """The file that says which life of the page cache a broker has written its logs to.

    A process that was killed has lost nothing of what it had written, as long as the machine has
    not been down since: all of it is in the page cache, or on the device by now.
    """

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, log_directory: str) -> None:
        self._disk = disk
        self.path = f"{log_directory}/{BOOT_FILE}"

    def broker_epoch(self) -> int:
        """Return the broker epoch of the last run, -1 if it was in another boot or is not known."""
        boot_id = self._disk.boot_id()
        known_boot_id, broker_epoch = self._read()
        return broker_epoch if boot_id and known_boot_id == boot_id else -1

    def is_of_another_boot(self) -> bool:
        """Return whether the machine has been down since the last run, as far as is known.

        It has where the marker is torn: it is changed in place, too. Without one nobody knows:
        earlier releases left none.
        """
        boot_id = self._disk.boot_id()
        if not boot_id or not self._disk.exists(self.path):
            return False
        known_boot_id, _ = self._read()
        return known_boot_id != boot_id

    def _read(self) -> tuple[str, int]:
        """Boot id and broker epoch, "" and -1 if they are not known."""
        if not self._disk.exists(self.path):
            return "", -1
        try:
            known = json.loads(self._disk.read_bytes(self.path))
            boot_id, broker_epoch = known["bootId"], known["brokerEpoch"]
        except (ValueError, KeyError, TypeError):
            return "", -1
        is_known = isinstance(boot_id, str) and isinstance(broker_epoch, int)
        return (boot_id, broker_epoch) if is_known and known["version"] == 0 else ("", -1)

    def remove(self) -> None:
        """Remove the marker, durable unless the machine goes down. Raises: OSError."""
        if self._disk.exists(self.path):
            self._disk.remove(self.path)

    def forget(self) -> None:
        """Have the marker name no broker epoch: what was written may be lost, in this boot, too.

        Durable unless the machine goes down, which is another boot. Raises: OSError.
        """
        if not self._disk.exists(self.path):
            return
        try:
            known_boot_id, _ = self._read()
            file = self._disk.open(self.path)
            try:
                file.truncate(0)
                file.write_at(_boot_marker(known_boot_id, -1), 0)
            finally:
                file.close()
        except OSError:
            self.remove()

    def write(self, broker_epoch: int) -> None:
        """Record that a broker runs under this epoch in this boot, durable when this returns."""
        self._disk.write_atomically(self.path, _boot_marker(self._disk.boot_id(), broker_epoch))


def _boot_marker(boot_id: str, broker_epoch: int) -> bytes:
    content = {"version": 0, "bootId": boot_id, "brokerEpoch": broker_epoch}
    return json.dumps(content, separators=(",", ":")).encode()


def _properties(path: str, data: bytes) -> dict[str, str]:
    """Return the pairs of a Java properties file: `=` or `:` separates, `#` and `!` start
    comments.
    """
    values: dict[str, str] = {}
    for raw in data.decode("latin-1").splitlines():
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        positions = [at for at in (line.find("="), line.find(":")) if at >= 0]
        if not positions:
            raise CheckpointError(path, f"line {line!r} is not `name=value`")
        at = min(positions)
        values[line[:at].strip()] = line[at + 1 :].strip().replace("\\", "")
    return values


def _uuid(path: str, text: str) -> bytes:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise CheckpointError(path, f"{text!r} is not an id") from error
