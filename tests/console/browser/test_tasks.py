"""The everyday tasks at three brokers of Barnabas, and what only our operator plans (CON-101)."""

from __future__ import annotations

from playwright.sync_api import expect

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
from tests.support.chromium import WatchedPage

__all__ = [
    "payments",
    "start",
    "test_dead_letters_go_back_in_four_clicks",
    "test_lag_of_a_spark_job_over_the_last_hour_is_one_click_away",
    "test_newest_records_are_one_click_away",
    "test_offsets_are_reset_in_four_clicks_and_brought_back",
    "test_record_is_found_by_time_and_field_in_two_clicks",
    "test_test_record_is_produced_in_three_clicks",
    "test_why_a_consumer_is_stuck_is_one_click_away",
]


def test_what_the_operator_plans_and_waits_for_is_one_click_away(operated: WatchedPage) -> None:
    """T9, CON-122: with the command that lets it happen."""
    page = operated.page
    page.goto("/")
    page.get_by_role("navigation").get_by_role("link", name="Kubernetes").click()
    expect(page.get_by_text("restart 2 (image)")).to_be_visible()
    expect(page.get_by_text("approval", exact=True)).to_be_visible()
    expect(page.get_by_text("barnabas.dev/approve=9f3c")).to_be_visible()
    expect(page.get_by_role("table", name="Brokers of demo")).to_contain_text("orders-0 in sync")
    # A broker that is not asked to go waits for nothing.
    expect(page.get_by_role("table", name="Brokers of demo")).not_to_contain_text("running")
    assert operated.clicks() <= 1
    assert not operated.accessibility_violations()
