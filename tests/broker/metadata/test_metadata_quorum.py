"""Shells of the metadata log together: electing, committing, publishing, and faults of each kind."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas_broker.metadata.leadership import NotLeadingError
from barnabas_broker.metadata.records import ConfigRecord
from tests.support.quorum_cluster import QuorumCluster
from tests.support.virtual_loop import run_virtual


def with_cluster(work: Callable[[QuorumCluster], Awaitable[None]], **settings: int) -> None:
    async def run() -> None:
        cluster = QuorumCluster(**settings)
        await work(cluster)
        await cluster.stop()

    run_virtual(run())


async def _three_members(cluster: QuorumCluster) -> None:
    await cluster.start()
    await cluster.register_all()
    await cluster.until(lambda: cluster.member_ids == {0, 1, 2})


def test_three_blank_nodes_elect_a_leader_and_all_publish_what_it_commits() -> None:
    """CTL-2, CTL-3, CTL-12: one of them founds the cluster, the others follow."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        for number in range(20):
            await cluster.write(f"key-{number}")
        await cluster.all_have("key-19")
        assert len(cluster.leading()) == 1
        images = [machine.publisher.image for machine in cluster.machines]
        assert images[0] == images[1] == images[2]

    with_cluster(work)
