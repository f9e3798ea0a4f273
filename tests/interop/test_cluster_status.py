"""`barnabas cluster status` against three brokers of Apache Kafka, of which one is stopped."""

import asyncio
import json
import os
import subprocess
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.support.barnabas_process import barnabas_command
from tests.support.kafka_cluster import KafkaCluster, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC, ALONE = "replicated-status", "alone-status"


def status(bootstrap: str) -> tuple[int, dict[str, Any]]:
    """Exit code and data of the command, run as a user runs it."""
    done = subprocess.run(
        [str(barnabas_command()), "cluster", "status", "-o", "json"],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": bootstrap},
    )
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def of_topics(told: dict[str, Any], field: str) -> set[str]:
    return {one["partition"] for one in told["troubles"] if one["trouble"] == field}


def test_a_stopped_broker_and_what_it_takes_along_are_shown(cluster: KafkaCluster) -> None:
    """Ready, then fenced: whose partitions are under-replicated, and which are offline."""

    async def run() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.create_topics(
                admin,
                NewTopic(name=TOPIC, replica_assignment={0: [1, 2, 3], 1: [2, 3, 1]}),
                NewTopic(
                    name=ALONE, replica_assignment={0: [3]}, configs={"min.insync.replicas": "1"}
                ),
            )
            code, told = await asyncio.to_thread(status, cluster.bootstrap)
            assert code == 0
            assert {one["broker"]: one["state"] for one in told["brokers"]} == dict.fromkeys(
                (1, 2, 3), "ready"
            )
            assert told["offline_partitions"] == 0
            await asyncio.to_thread(cluster.brokers[3].stop)
            shown: list[dict[str, Any]] = []

            async def is_seen() -> bool:
                code, told = await asyncio.to_thread(status, cluster.bootstrap)
                shown.append(told)
                return code == 1

            await until(is_seen)
            told = shown[-1]
            assert told["health"] == "unhealthy"
            (third,) = [one for one in told["brokers"] if one["broker"] == 3]
            assert third["state"] in ("fenced", "gone")
            assert third["leaders"] == 0
            assert f"{ALONE}-0" in of_topics(told, "offline")
            assert {f"{TOPIC}-0", f"{TOPIC}-1"} <= of_topics(told, "under-replicated")
            await asyncio.to_thread(cluster.brokers[3].start)
            await cluster.until_in_sync(admin, [TOPIC, ALONE])

    asyncio.run(run())
