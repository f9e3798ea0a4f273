"""Checkpoint and property files: exact bytes, and refusal of everything that is not whole."""

import pytest

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.checkpoints import CheckpointError, OffsetCheckpoint
from barnabas_broker.log.properties_files import (
    CleanShutdownMarker,
    MetaProperties,
    read_meta_properties,
    read_topic_id,
    write_meta_properties,
    write_topic_id,
)
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

DIRECTORY_ID = bytes(range(16))


@pytest.fixture
def disk():
    disk = RealDisk()
    yield disk
    disk.close()


def test_offsets_are_written_as_apache_kafka_writes_them(disk, tmp_path):
    """formats.md 8: version, count, then `topic partition offset`."""
    checkpoint = OffsetCheckpoint(disk, str(tmp_path / "recovery-point-offset-checkpoint"))
    checkpoint.write({TopicPartition("b", 1): 7, TopicPartition("a", 0): 2**40})
    with open(checkpoint.path, "rb") as file:
        assert file.read() == b"0\n2\na 0 1099511627776\nb 1 7\n"
    assert checkpoint.read() == {TopicPartition("a", 0): 2**40, TopicPartition("b", 1): 7}


def test_a_missing_checkpoint_is_empty(disk, tmp_path):
    assert OffsetCheckpoint(disk, str(tmp_path / "none")).read() == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na zero 1\n",
        b"0\n1\na 0 -1\n",
        b"0\n2\na 0 1\na 0 2\n",
        b"x\n0\n",
        b"\xff\xfe",
    ],
)
def test_a_broken_checkpoint_is_refused(disk, tmp_path, content):
    """formats.md 8: a wrong count or version is an error."""
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        OffsetCheckpoint(disk, str(path)).read()


def test_meta_properties_survive_a_round_trip(disk, tmp_path):
    """formats.md 8: version 1 carries cluster id, node id and directory id."""
    path = str(tmp_path / "meta.properties")
    properties = MetaProperties(
        cluster_id="AAECAwQFBgcICQoLDA0ODw", node_id=3, directory_id=DIRECTORY_ID
    )
    write_meta_properties(disk, path, properties)
    assert read_meta_properties(disk, path) == properties
    with open(path, encoding="latin-1") as file:
        assert "directory.id=AAECAwQFBgcICQoLDA0ODw\n" in file.read()


def test_meta_properties_of_java_are_read(disk, tmp_path):
    """NODE-4: `broker.id` is the older name; comments, blanks and escapes are Java's."""
    path = tmp_path / "meta.properties"
    path.write_text("#\n#Sat Nov 21 02:00:00 UTC 2026\n\nbroker.id = 7\nversion: 0\n")
    found = read_meta_properties(disk, str(path))
    assert found == MetaProperties(cluster_id=None, node_id=7, directory_id=ZERO_UUID, format=0)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n# nothing\n",
        "version=2\n",
        "version=1\nnode.id=1\n",
        "version=1\ncluster.id=x\nnode.id=y\n",
        "z",
    ],
)
def test_broken_meta_properties_are_refused(disk, tmp_path, content):
    """NODE-2: an identity that cannot be read must not be taken for none."""
    path = tmp_path / "meta.properties"
    path.write_text(content)
    with pytest.raises(CheckpointError):
        read_meta_properties(disk, str(path))


def test_partition_metadata_has_apache_kafkas_two_lines(disk, tmp_path):
    """LOG-14, formats.md 8."""
    path = str(tmp_path / "partition.metadata")
    assert read_topic_id(disk, path) is None
    write_topic_id(disk, path, DIRECTORY_ID)
    with open(path, "rb") as file:
        assert file.read() == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert read_topic_id(disk, path) == DIRECTORY_ID


@pytest.mark.parametrize("is_durable", [False, True])
def test_partition_metadata_replaces_what_was_there(disk, tmp_path, is_durable):
    path = tmp_path / "partition.metadata"
    path.write_text("something longer than an id, of a broker that stopped half way\n" * 2)
    write_topic_id(disk, str(path), DIRECTORY_ID, is_durable=is_durable)
    assert path.read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"


@pytest.mark.parametrize("content", ["version: 1\n", "version: 0\n", "version: 0\ntopic_id: ?\n"])
def test_broken_partition_metadata_is_refused(disk, tmp_path, content):
    path = tmp_path / "partition.metadata"
    path.write_text(content)
    with pytest.raises(CheckpointError):
        read_topic_id(disk, str(path))


def test_the_clean_shutdown_marker_carries_the_broker_epoch(disk, tmp_path):
    """formats.md 8: JSON of version 0; an empty file of an older Kafka still means clean."""
    marker = CleanShutdownMarker(disk, str(tmp_path))
    assert (marker.exists(), marker.broker_epoch()) == (False, -1)
    marker.write(42)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":42}'
    assert (marker.exists(), marker.broker_epoch()) == (True, 42)
    (tmp_path / ".kafka_cleanshutdown").write_text("")
    assert (marker.exists(), marker.broker_epoch()) == (True, -1)
    marker.remove()
    marker.remove()
    assert not marker.exists()
