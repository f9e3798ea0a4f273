"""Groups, series and timeline as the page asks for them, on a real broker."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp.test_utils import TestClient

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.producer.producer import Producer
from barnabas_console.history.sampler import Sampler
from barnabas_console.server import SAMPLER
from barnabas_protocol.ids import TopicPartition
from tests.support.barnabas_process import barnabas_command
from tests.support.console_server import running_console, told
from tests.support.in_process_broker import eventually, running_broker

Client = TestClient[Any, Any]
PLACE = TopicPartition("orders", 0)
# All that a name may have.
ODD = "spark-kafka-source-a/b?c=d&e ü"


class Scene:
    """A broker with a topic and two groups without members, a console, and its sampler."""

    def __init__(self, bootstrap: str, admin: Admin, client: Client) -> None:
        self.bootstrap = bootstrap
        self.admin = admin
        self.client = client

    @property
    def sampler(self) -> Sampler:
        """The console's own."""
        app = self.client.server.app  # type: ignore[attr-defined]
        found: Sampler = app[SAMPLER]
        return found

    async def produce(self, count: int) -> None:
        """Records in the first partition."""
        async with Producer(self.bootstrap) as producer:
            for number in range(count):
                producer.send("orders", b"%d" % number, partition=0)

    async def commit(self, group: str, offset: int) -> None:
        """For a group without members."""
        offsets = {PLACE: OffsetAndMetadata(offset)}
        (await self.admin.group_offsets.alter(group, offsets)).unwrap()

    async def told_by_command(self, *arguments: str) -> Any:
        """What the command writes with -o json."""
        command = (str(barnabas_command()), *arguments, "-o", "json", "-b", self.bootstrap)
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        return json.loads(output)

    async def looked(self) -> None:
        """Until the sampler knows how far both groups are."""

        async def is_known() -> bool:
            await self.sampler.look()
            samples = self.sampler.groups.by_id.values()
            return len(samples) == 2 and all(one.lag is not None for one in samples)

        await eventually(is_known)


def in_scene(directory: Path, work: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def scenario() -> None:
        async with running_broker(directory) as server:
            bootstrap = f"127.0.0.1:{server.port}"
            async with (
                Admin(bootstrap) as admin,
                running_console(bootstrap) as client,
            ):
                (
                    await admin.topics.create(
                        [NewTopic(name="orders", partition_count=2, replication_factor=1)]
                    )
                ).unwrap()
                scene = Scene(bootstrap, admin, client)
                await scene.produce(10)
                await scene.commit("billing", 4)
                await scene.commit(ODD, 10)
                await scene.looked()
                await work(scene)

    asyncio.run(scenario())


def test_groups_are_listed_with_lag_and_words(tmp_path: Path) -> None:
    """CON-118: lag in records and in time, application, and why, all sortable."""

    async def work(scene: Scene) -> None:
        listed = await told(scene.client, "/groups?sort=-lag")
        assert listed["total"] == 2
        billing, spark = listed["rows"]
        assert (billing["group"], billing["lag"], billing["members"]) == ("billing", 6, 0)
        assert billing["health"] == "warning"
        assert "6 records wait in orders-0" in billing["words"]
        assert billing["lag_seconds"] >= 0
        assert billing["trend"][-1] == 6
        assert (spark["group"], spark["application"], spark["lag"]) == (ODD, "spark", 0)
        assert (spark["health"], spark["lag_seconds"]) == ("fine", 0)
        for field in ("group", "health", "state", "type", "members", "lag_seconds", "topics"):
            for sign in ("", "-"):
                assert (await told(scene.client, f"/groups?sort={sign}{field}"))["total"] == 2
        assert (await told(scene.client, "/groups?q=BILL"))["total"] == 1
        paged = await told(scene.client, "/groups?offset=1&limit=1")
        assert (paged["total"], [row["group"] for row in paged["rows"]]) == (2, [ODD])
        await told(scene.client, "/groups?sort=nothing", 400)

    in_scene(tmp_path, work)


def test_one_group_is_what_the_command_line_tells(tmp_path: Path) -> None:
    """CON-102, CON-119: the same functions; the page adds only what its history knows."""

    async def work(scene: Scene) -> None:
        shown = await told(scene.client, "/groups/billing")
        (described,) = await scene.told_by_command("group", "describe", "billing")
        aged = ("lag_seconds", "partition_list")
        assert {key: shown[key] for key in described if key not in aged} == {
            key: value for key, value in described.items() if key not in aged
        }
        assert shown["partition_list"][0]["lag"] == 6
        odd = await told(scene.client, f"/groups/{quote(ODD, safe='')}")
        assert (odd["group"], odd["application"]) == (ODD, "spark")
        await told(scene.client, "/groups/nobody", 404)

    in_scene(tmp_path, work)


def test_readers_of_a_topic_and_its_traffic_are_told(tmp_path: Path) -> None:
    """CON-117: from ends of partitions, so that Apache Kafka has it, too."""

    async def work(scene: Scene) -> None:
        await scene.produce(50)
        await scene.sampler.look()
        readers = await told(scene.client, "/topics/orders/groups")
        by_name = {row["group"]: row for row in readers["rows"]}
        assert by_name.keys() == {"billing", ODD}
        assert by_name["billing"]["topic_lag"] == 56
        for sort in ("groups", "-groups", "records_per_second", "-records_per_second"):
            (row,) = (await told(scene.client, f"/topics?sort={sort}"))["rows"]
            assert (row["groups"], row["records_per_second"] is not None) == (2, True)
        traffic = await told(scene.client, "/topics/orders/traffic")
        first, second = traffic["partition_list"]
        assert traffic["arriving"] is not None
        assert (second["arriving"], first["leader"]) == (0, second["leader"])
        assert abs(first["arriving"] - traffic["arriving"]) < 0.01
        await told(scene.client, "/topics/nothing/traffic", 404)

    in_scene(tmp_path, work)


def test_series_are_told_by_name_with_gaps_for_what_is_not_known(tmp_path: Path) -> None:
    """CON-137, CON-141: nothing of groups that the viewer's own list does not have."""

    async def work(scene: Scene) -> None:
        await scene.sampler.look()
        names = "names=group:lag:billing&names=group:lag:nobody&names=cluster:arriving:"
        series = await told(scene.client, f"/series?{names}")
        lag, nobody, arriving = series["columns"]
        assert len(series["t"]) == len(lag) == len(arriving) >= 2
        assert (lag[-1], nobody) == (6, None)
        assert series["t"] == sorted(series["t"])
        later = await told(scene.client, f"/series?{names}&since={series['t'][-1]}")
        assert (later["t"], later["columns"][0]) == ([], [])
        await told(scene.client, "/series?since=soon", 400)
        await told(scene.client, "/series?" + "names=a&" * 65, 400)

    in_scene(tmp_path, work)


def test_the_timeline_tells_what_has_changed(tmp_path: Path) -> None:
    """CON-123: topics, groups and their troubles; a page asks for what is behind its last one."""

    async def work(scene: Scene) -> None:
        (
            await scene.admin.topics.create(
                [NewTopic(name="refunds", partition_count=1, replication_factor=1)]
            )
        ).unwrap()
        await scene.commit("billing", 10)
        (await scene.admin.groups.delete([ODD])).unwrap()

        async def is_told() -> bool:
            await scene.sampler.look()
            rows = (await told(scene.client, "/timeline"))["rows"]
            return {"refunds", "billing", ODD} <= {row["subject"] for row in rows}

        await eventually(is_told)
        rows = (await told(scene.client, "/timeline"))["rows"]
        assert [row["number"] for row in rows] == sorted(
            (row["number"] for row in rows), reverse=True
        )
        of_group = (await told(scene.client, "/timeline?group=billing"))["rows"]
        assert "Over: No members: 6 records wait" in of_group[0]["words"]
        of_topic = (await told(scene.client, "/timeline?topic=refunds"))["rows"]
        assert [(row["kind"], row["words"]) for row in of_topic] == [("topic", "created")]
        behind = await told(scene.client, f"/timeline?after={rows[0]['number']}")
        assert behind["rows"] == []

    in_scene(tmp_path, work)


def test_the_timeline_tells_which_settings_were_changed(tmp_path: Path) -> None:
    """CON-123: of topics and of brokers, old and new."""

    async def work(scene: Scene) -> None:
        changes = {
            ConfigResource.topic("orders"): [ConfigChange.set("retention.ms", "60000")],
            ConfigResource.broker(): [ConfigChange.set("log.cleaner.threads", "2")],
        }
        (await scene.admin.configs.alter(changes)).unwrap()
        found: dict[str, str] = {}

        async def is_told() -> bool:
            await scene.sampler.look()
            rows = (await told(scene.client, "/timeline?kind=setting"))["rows"]
            found.update({row["subject"]: row["words"] for row in rows})
            return len(found) == 2

        await eventually(is_told)
        assert found == {
            "topic orders": "retention.ms: default → 60000",
            "all brokers": "log.cleaner.threads: default → 2",
        }
        of_topic = (await told(scene.client, "/timeline?topic=orders&kind=setting"))["rows"]
        assert len(of_topic) == 1

    in_scene(tmp_path, work)
