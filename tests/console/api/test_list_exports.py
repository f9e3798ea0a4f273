"""Whole lists as files: all rows, as the pages of the list have them (CON-124)."""

import asyncio
import csv
import json
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient

from barnabas_client.admin import Admin, NewTopic
from barnabas_console.api.list_exports import lines
from barnabas_console.records import reading_budget
from tests.support.console_commands import command
from tests.support.console_server import OWN, running_console, told
from tests.support.in_process_broker import eventually, running_broker

TOPIC_COUNT = 250


async def downloaded(client: TestClient, path: str) -> tuple[str, str]:  # type: ignore[type-arg]
    """A file as the browser gets it: by a ticket, for a link carries no header."""
    body = {"path": f"/api/v1/{path}"}
    async with client.post("/api/v1/tickets", json=body, headers=OWN) as response:
        url = (await response.json())["url"]
    async with client.get(url) as response:
        assert response.status == 200, await response.text()
        return await response.text(), response.headers["Content-Disposition"]


def test_lists_are_exported_whole_in_their_order(tmp_path: Path) -> None:
    """CON-102, CON-124: more than a page, as the command line tells them."""

    async def run() -> None:
        async with (
            running_broker(tmp_path) as broker,
            Admin(bootstrap := f"127.0.0.1:{broker.port}") as admin,
            running_console(bootstrap) as client,
        ):
            new = [NewTopic(name=f"orders{number:03}") for number in range(TOPIC_COUNT)]
            (await admin.topics.create(new)).unwrap()

            async def all_there() -> bool:
                return bool((await told(client, "/topics"))["total"] == TOPIC_COUNT)

            await eventually(all_there)
            text, disposition = await downloaded(client, "exports/topics?format=jsonl&sort=-topic")
            rows = [json.loads(line) for line in text.splitlines()]
            assert disposition == 'attachment; filename="topics.jsonl"'
            listed = await command(bootstrap, "barnabas topic list")
            assert len(rows) == len(listed) == TOPIC_COUNT
            for row, summary in zip(rows, reversed(listed), strict=True):
                assert summary.items() <= row.items()
            text, _ = await downloaded(client, "exports/topics?format=csv&q=ORDERS00")
            head, *found = csv.reader(text.splitlines())
            assert head[0] == "topic"
            assert [row[0] for row in found] == [f"orders00{number}" for number in range(10)]
            assert (await downloaded(client, "exports/groups?format=csv"))[0] == ""
            for path in ("topics?format=xlsx", "topics?sort=secret", "groups?format="):
                error = await told(client, f"/exports/{path}", 400)
                assert error["error"] == "BAD_REQUEST"

    asyncio.run(run())


def test_lists_are_exported_to_so_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-136: a hundred browsers that read slowly had a list of 10,000 topics each in memory."""
    monkeypatch.setattr(reading_budget, "SCANS_MAX", 0)

    async def run() -> None:
        async with (
            running_broker(tmp_path) as broker,
            running_console(f"127.0.0.1:{broker.port}") as client,
        ):
            for name in ("topics", "groups"):
                error = await told(client, f"/exports/{name}", 429)
                assert error["error"] == "TOO_MANY_REQUESTS"

    asyncio.run(run())


def test_names_are_no_formulas_in_a_spreadsheet() -> None:
    """CON-172: a group's name may be any text."""
    rows = [{"group": "=1+1", "lag": -5}, {"group": 'a,"b"', "lag": None}]
    text = b"".join(lines("csv", rows)).decode()
    assert [*csv.reader(text.splitlines())] == [["group", "lag"], ["'=1+1", "-5"], ['a,"b"', ""]]
    text = b"".join(lines("jsonl", rows)).decode()
    assert [json.loads(line) for line in text.splitlines()] == rows
