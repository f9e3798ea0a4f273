"""The same pages and tasks for a real Apache Kafka: none is of Barnabas alone (CON-130, CON-170).

T1 to T8 and T10 are those of `tasks_of_any_cluster.py` and `faults_of_any_cluster.py`, at three
brokers and a controller of Apache Kafka. T9 is what our operator plans.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.console.browser.faults_of_any_cluster import (
    replicated,
    test_group_changed_after_the_preview_is_not_reset,
    test_killed_broker_is_seen_and_so_is_its_return,
    test_tail_goes_on_when_the_leader_is_killed,
    test_topic_deleted_under_a_scan_is_told,
    test_who_may_be_stopped_is_on_the_first_page,
)
from tests.console.browser.tasks_of_any_cluster import (
    payments,
    start,
    test_dead_letters_go_back_in_four_clicks,
    test_lag_of_a_spark_job_over_the_last_hour_is_one_click_away,
    test_newest_records_are_one_click_away,
    test_offsets_are_reset_in_four_clicks_and_brought_back,
    test_record_is_found_by_time_and_field_in_two_clicks,
    test_test_record_is_produced_in_three_clicks,
    test_why_a_consumer_is_stuck_is_one_click_away,
)
from tests.support.chromium import WatchedPage, window
from tests.support.console_process import ConsoleProcess, WatchedCluster
from tests.support.kafka_cluster import KafkaCluster

__all__ = [
    "payments",
    "replicated",
    "start",
    "test_dead_letters_go_back_in_four_clicks",
    "test_group_changed_after_the_preview_is_not_reset",
    "test_killed_broker_is_seen_and_so_is_its_return",
    "test_lag_of_a_spark_job_over_the_last_hour_is_one_click_away",
    "test_newest_records_are_one_click_away",
    "test_offsets_are_reset_in_four_clicks_and_brought_back",
    "test_record_is_found_by_time_and_field_in_two_clicks",
    "test_tail_goes_on_when_the_leader_is_killed",
    "test_test_record_is_produced_in_three_clicks",
    "test_topic_deleted_under_a_scan_is_told",
    "test_who_may_be_stopped_is_on_the_first_page",
    "test_why_a_consumer_is_stuck_is_one_click_away",
]

PAGES = ("overview", "brokers", "brokers/1", "topics", "topics/orders/partitions", "cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedCluster]:
    """A console for three brokers of Apache Kafka with a topic."""
    directory = tmp_path_factory.mktemp("apache")
    with KafkaCluster(directory) as kafka, ConsoleProcess(directory, kafka.bootstrap) as console:
        running = WatchedCluster(kafka, console)

        async def create(admin: Admin) -> None:
            await kafka.until_formed(admin)
            topic = NewTopic(name="orders", partition_count=3, replication_factor=3)
            await kafka.create_topics(admin, topic)

        running.run(create)
        yield running


@pytest.fixture
def watched(browser: object, cluster: WatchedCluster) -> Iterator[WatchedPage]:
    """A fresh window at that console."""
    yield from window(browser, cluster.console.address)


@pytest.mark.parametrize("path", PAGES)
def test_page_shows_apache_kafka(path: str, watched: WatchedPage) -> None:
    """CON-130: facts of Apache Kafka, nothing refused, accessible as ever."""
    page = watched.page
    page.goto(f"/orders-prod/{path}")
    page.locator("main table").first.wait_for()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert not watched.accessibility_violations()


def test_settings_have_values_and_sources(watched: WatchedPage) -> None:
    """CON-117: what Apache Kafka tells of its settings is shown in the same words."""
    page = watched.page
    page.goto("/orders-prod/topics/orders/settings")
    page.get_by_label("default").check()
    name = page.get_by_role("rowheader", name="retention.ms", exact=True)
    expect(page.get_by_role("row").filter(has=name)).to_contain_text("604800000 ms = 7 d")
