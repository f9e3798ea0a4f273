"""An API of the console whose answers a test writes: what the page makes of any of them.

The page's own files come from the real server; only `/api/v1` is answered here, in the browser.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

#: Gets the query; gives a body, or a status and a body.
Answer = Callable[[Mapping[str, str]], Any]
SESSION = {
    "principal": None,
    "read_only": False,
    "cluster": "orders-prod",
    "version": "0",
    "apis": [],
}


class ScriptedApi:
    """Answers by path; what is not named is empty."""

    def __init__(self, page: Page) -> None:
        self.answers: dict[str, Answer] = {"session": lambda _: SESSION}
        self.is_reachable = True
        self.asked: list[str] = []
        page.route("**/api/v1/**", self._answer)

    def _answer(self, route: Route) -> None:
        address = urlsplit(route.request.url)
        path = address.path.partition("/api/v1/")[2]
        self.asked.append(f"{path}?{address.query}" if address.query else path)
        if not self.is_reachable:
            route.abort("connectionrefused")
            return
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        answer = self.answers.get(path, lambda _: {"total": 0, "rows": [], "as_of_ms": 0})(query)
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        route.fulfill(status=status, content_type="application/json", body=json.dumps(body))


def topic_rows(names: list[str]) -> list[dict[str, Any]]:
    """Rows of topics, as the server gives them."""
    return [
        {
            "topic": name,
            "partitions": 3,
            "replicas": 3,
            "under_replicated": 0,
            "offline": 0,
            "internal": False,
            "size_bytes": 4_096 * number,
        }
        for number, name in enumerate(names)
    ]


def listing(rows: list[dict[str, Any]], name: str) -> Answer:
    """A list that is searched and paged, as the server does it."""

    def answer(query: Mapping[str, str]) -> dict[str, Any]:
        found = [row for row in rows if query.get("q", "") in row[name]]
        first = int(query.get("offset", 0))
        return {
            "total": len(found),
            "rows": found[first : first + int(query.get("limit", 100))],
            "as_of_ms": 0,
        }

    return answer
