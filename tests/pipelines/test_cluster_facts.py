"""What a job learns of a cluster before Spark starts: a topic that is not there, by its name."""

import asyncio

import pytest

from barnabas_client.admin import Admin, NewTopic
from barnabas_pipelines.errors import TopicGoneError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_testing import Broker


async def create(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        (await admin.topics.create([NewTopic(name=name, partition_count=2)])).unwrap()


def test_a_mistyped_topic_is_told_with_the_one_that_was_meant() -> None:
    """Its name is all that a user of a job has; nothing is made of a topic that is not there."""
    with Broker() as broker:
        asyncio.run(create(broker.bootstrap_servers, "orders"))
        facts = ClusterFacts(broker.bootstrap_servers, {})
        with pytest.raises(TopicGoneError, match=r"no topic ordres; did you mean orders\?$"):
            facts.topics(["ordres"])
        with pytest.raises(TopicGoneError, match=r"no topic zebra$"):
            facts.topic_ids(["orders", "zebra"])
        assert facts.partition_count("orders") == 2
