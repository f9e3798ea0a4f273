"""The query of a list, `?q&sort&offset&limit`, with its bounds: the same for all lists.

`sort` is a field, with `-` before it from the largest. Invariant: what is refused is refused as 400
in words.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from barnabas_console.api.responses import ApiError

LIMIT_MAX: Final = 200
_DIGITS_MAX: Final = 9
TEXT_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """Which rows of a list are wanted, in which order."""

    text: str
    sort: str
    is_descending: bool
    offset: int
    limit: int


def list_query(request: web.Request, fields: Collection[str], *, default: str) -> ListQuery:
    """The request's. Raises: ApiError."""
    sort = request.query.get("sort") or default
    field = sort.removeprefix("-")
    if field not in fields:
        raise ApiError(400, "BAD_REQUEST", f"there is no field {field!r} to sort by")
    text = request.query.get("q", "").strip()
    if len(text) > TEXT_MAX:
        raise ApiError(400, "BAD_REQUEST", f"a search has at most {TEXT_MAX} characters")
    return ListQuery(
        text=text,
        sort=field,
        is_descending=sort.startswith("-"),
        offset=number_of(request, "offset", default=0),
        limit=min(number_of(request, "limit", default=100), LIMIT_MAX),
    )


def number_of(request: web.Request, name: str, *, default: int) -> int:
    """A number that is not negative. Raises: ApiError."""
    text = request.query.get(name)
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise ApiError(400, "BAD_REQUEST", f"'{name}' must be a number")
    return int(text)
