"""`snapshot` with a driver that is killed and a broker that dies: whole tables, nothing lost."""

import asyncio
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from barnabas_client.admin import Admin
from barnabas_client.admin.values.acls import AclBinding
from barnabas_pipelines.errors import DataLossError, PipelineError
from barnabas_pipelines.jobs import snapshot
from barnabas_pipelines.jobs.settings import settings_of
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType
from tests.pipelines.spark import records
from tests.pipelines.spark.kill_rounds import ROUNDS
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.pipelines.spark.records import RecordToSend
from tests.pipelines.spark.segments import cut_segment
from tests.support.barnabas_process import BarnabasProcess
from tests.support.processes import ManagedProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NewTopic = Callable[..., str]
KEYS = 500
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
COMPACTED: dict[str, str | None] = {"cleanup.policy": "compact"}


def produce_round(bootstrap: str, topic: str, number: int) -> dict[bytes, bytes]:
    """Write all keys anew, without those that the round deletes; what the table is then."""
    values = {
        b"%d" % key: None if key % 7 == number else b"%d of round %d" % (key, number)
        for key in range(KEYS)
    }
    sent = [
        RecordToSend(key=key, value=value, partition=int(key) % 2) for key, value in values.items()
    ]
    records.produce(bootstrap, topic, sent)
    return {key: value for key, value in values.items() if value is not None}


def table(path: Path) -> dict[bytes, bytes]:
    """What a reader without Spark finds; empty before the first version."""
    if not DeltaTable.is_deltatable(str(path)):
        return {}
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("via", ["connector", "python"])
def test_a_broker_that_dies_while_it_is_read_loses_nothing(
    spark: "SparkSession", own_broker: BarnabasProcess, tmp_path: Path, via: str
) -> None:
    """It is killed when the range is fixed, and comes back while Spark asks for records."""
    records.create_topic(own_broker.bootstrap, "users", 2, COMPACTED)
    restarts: list[threading.Thread] = []

    class KillingReport(RecordedReport):
        """Kills the broker when reading begins."""

        def line(self, text: str) -> None:
            super().line(text)
            if "reading" in text:
                own_broker.kill()
                restarts.append(threading.Thread(target=own_broker.start))
                restarts[-1].start()

    given = {"bootstrap-servers": own_broker.bootstrap, "topic": "users", "via": via}
    settings = settings_of(snapshot.OPTIONS, given | {"table": str(tmp_path / "table")})
    wanted = produce_round(own_broker.bootstrap, "users", 0)
    snapshot.run(settings, spark, KillingReport("snapshot"))
    (restart,) = restarts
    restart.join()
    assert table(tmp_path / "table") == wanted


def test_a_topic_that_is_compacted_between_two_runs_gives_the_same_table(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """The offset to go on from may be a hole by then, and most of the range with it."""
    properties = {"log.cleaner.backoff.ms": "50", "auto.create.topics.enable": "false"}
    configs = {**COMPACTED, "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.0"}
    dice = random.Random(3)
    wanted: dict[bytes, bytes] = {}
    with BarnabasProcess(tmp_path / "broker", properties=properties) as own:
        records.create_topic(own.bootstrap, "users", 1, configs)
        given = {"bootstrap-servers": own.bootstrap, "topic": "users"}
        settings = settings_of(snapshot.OPTIONS, given | {"table": str(tmp_path / "table")})
        for _ in range(2):
            changes = [
                (b"%d" % dice.randrange(40), dice.randbytes(1000) if dice.random() < 0.7 else None)
                for _ in range(2000)
            ]
            sent = [RecordToSend(key=key, value=value) for key, value in changes]
            records.produce(own.bootstrap, "users", sent)
            for key, value in changes:
                wanted.pop(key, None)
                if value is not None:
                    wanted[key] = value
            snapshot.run(settings, spark, RecordedReport("snapshot"))
            assert table(tmp_path / "table") == wanted
            end = records.end_offsets(own.bootstrap, "users")[0]

            def is_compacted(end: int = end) -> bool:
                return len(records.consume(own.bootstrap, "users")) < end * 3 // 4

            wait_until(is_compacted, 60, lambda: "nothing was compacted")
        given |= {"table": str(tmp_path / "anew")}
        snapshot.run(settings_of(snapshot.OPTIONS, given), spark, RecordedReport("snapshot"))
        assert table(tmp_path / "anew") == wanted


def test_a_driver_that_is_killed_leaves_a_whole_table(
    spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path, new_topic: NewTopic
) -> None:
    """The real process, SIGKILL, when it has files of a version; in more rounds also at the moment
    when it has fixed the range, and when it has the version.
    """
    topic = new_topic(partitions=2, configs=COMPACTED)
    path = tmp_path / "table"
    log = tmp_path / "driver.log"
    before: dict[bytes, bytes] = {}

    def start() -> ManagedProcess:
        options = {"--bootstrap-servers": broker.bootstrap, "--topic": topic, "--table": str(path)}
        options |= {"--master": "local[2]", "--conf": "spark.sql.shuffle.partitions=2"}
        words = [word for option in options.items() for word in option]
        command = [sys.executable, "-m", "barnabas_pipelines.jobs.snapshot", *words]
        return ManagedProcess(command, log, {})

    moments: list[Callable[[], bool]] = [
        lambda: "reading" in log.read_text(),
        lambda: any(path.glob("part-*")),
        lambda: (path / "_delta_log" / f"{0:020d}.json").exists(),
    ]
    for number, moment in enumerate(moments if ROUNDS > 1 else moments[1:2]):
        wanted = produce_round(broker.bootstrap, topic, number)
        driver = start()

        def is_due(driver: ManagedProcess = driver, moment: Callable[[], bool] = moment) -> bool:
            return moment() or not driver.is_running()

        wait_until(is_due, 120, lambda: log.read_text()[-3000:], 0.002)
        driver.kill()
        now = table(path)
        assert now in (before, wanted), f"moment {number}"
        before = now
    given = {"bootstrap-servers": broker.bootstrap, "topic": topic, "table": str(path)}
    snapshot.run(settings_of(snapshot.OPTIONS, given), spark, RecordedReport("snapshot"))
    assert table(path) == wanted


def test_a_topic_that_was_cut_and_has_grown_again_is_not_merged(
    spark: "SparkSession", own_broker: BarnabasProcess, tmp_path: Path
) -> None:
    """As by an unclean election: the table has rows of records that are gone."""
    records.create_topic(own_broker.bootstrap, "users", 1, COMPACTED)
    given = {"bootstrap-servers": own_broker.bootstrap, "topic": "users"}
    settings = settings_of(snapshot.OPTIONS, given | {"table": str(tmp_path / "table")})

    def produce(*keys: bytes) -> None:
        sent = [RecordToSend(key=key, value=b"value of " + key) for key in keys]
        records.produce(own_broker.bootstrap, "users", sent)

    produce(b"a", b"b")
    produce(b"c")
    snapshot.run(settings, spark, RecordedReport("snapshot"))
    own_broker.kill()
    (segment,) = own_broker.data_directory.rglob("users-0/*.log")
    cut_segment(segment, 2)
    own_broker.start()
    produce(b"d", b"e")
    with pytest.raises(DataLossError, match="lost the records from 2 on, and has others there"):
        snapshot.run(settings, spark, RecordedReport("snapshot"))
    rebuilt = settings_of(snapshot.OPTIONS, dict(settings.values) | {"rebuild": True})
    snapshot.run(rebuilt, spark, RecordedReport("snapshot"))
    assert set(table(tmp_path / "table")) == {b"a", b"b", b"d", b"e"}


def test_a_topic_whose_settings_are_not_told_is_refused(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Without its delete.retention.ms nobody knows whether deletions were missed since."""
    secured = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with BarnabasProcess(tmp_path / "broker", properties=secured) as own:
        records.create_topic(own.bootstrap, "users", 1, COMPACTED)
        records.produce(own.bootstrap, "users", [RecordToSend(key=b"a", value=b"1")])
        rights = [
            _right(AclOperation.ALL, AclPermission.ALLOW),
            _right(AclOperation.DESCRIBE_CONFIGS, AclPermission.DENY),
        ]

        async def give() -> None:
            async with Admin(own.bootstrap) as admin:
                (await admin.acls.create(rights)).unwrap()

        asyncio.run(give())
        given = {"bootstrap-servers": own.bootstrap, "topic": "users"}
        settings = settings_of(snapshot.OPTIONS, given | {"table": str(tmp_path / "table")})
        with pytest.raises(PipelineError, match="needs DescribeConfigs"):
            snapshot.run(settings, spark, RecordedReport("snapshot"))
        assert table(tmp_path / "table") == {}


def _right(operation: AclOperation, permission: AclPermission) -> AclBinding:
    return AclBinding(
        resource_type=AclResourceType.TOPIC,
        resource_name="users",
        principal="User:ANONYMOUS",
        operation=operation,
        permission=permission,
    )
