"""Dialogs whose content changes: what is done is what was shown, and the focus stays in them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.support.chromium import WatchedPage
from tests.support.scripted_api import ScriptedApi

MOVED = {"error": "MOVED", "message": "The topic is there by now.", "hint": "", "broker": None}
NO_RECORDS = {
    "rows": [],
    "ranges": [],
    "problems": [],
    "older": None,
    "newer": None,
    "is_end": True,
    "direction": "backwards",
    "bytes_read": 0,
    "partition": 0,
    "offset": 7,
    "locks": {},
}


class Plans:
    """Plans of new topics, named by what was to be created; what is applied waits or is refused."""

    def __init__(self, watched: WatchedPage) -> None:
        self.applied: list[str] = []
        self.waiting: list[Route] = []
        self._watched = watched
        self.page = watched.page
        ScriptedApi(self.page)
        self.page.route("**/api/v1/plans", self._draw_up)
        self.page.route("**/api/v1/plans/*/apply", self._apply)
        self.page.goto("/orders-prod/topics")
        self.page.get_by_role("button", name="Create topic…").click()

    def _draw_up(self, route: Route) -> None:
        topic = route.request.post_data_json["topic"]
        row = {"item": topic, "old": None, "new": "there", "note": ""}
        plan: dict[str, Any] = {
            "id": topic,
            "hash": "1",
            "title": f"Create topic {topic}",
            "rows": [row],
            "change_count": 1,
            "warnings": [],
            "commands": [],
            "typed": None,
            "refusal": None,
            "lock": None,
            "has_undo": False,
        }
        route.fulfill(content_type="application/json", body=json.dumps(plan))

    def _apply(self, route: Route) -> None:
        self.applied.append(route.request.url.split("/")[-2])
        self.waiting.append(route)

    def respond(self, **response: Any) -> None:
        """Respond to the request that carries a plan out, which may be on its way here."""
        self._watched.until(lambda: self.waiting)
        self.waiting.pop().fulfill(**response)

    @property
    def focused(self) -> str:
        """What of the dialog has the focus."""
        return str(self.page.evaluate("document.activeElement.closest('dialog *')?.textContent"))


def test_a_plan_of_what_was_typed_before_is_not_carried_out(scripted: WatchedPage) -> None:
    """CON-120: Enter within a frame of the last letter did what had been shown before it."""
    plans = Plans(scripted)
    page = plans.page
    page.get_by_label("Name").fill("ord")
    preview = page.get_by_role("group", name="Preview")
    expect(preview.get_by_role("row", name="ord")).to_be_visible()
    page.evaluate(
        """async () => {
          const name = document.querySelector("dialog input");
          name.value = "orders";
          name.dispatchEvent(new InputEvent("input", { bubbles: true }));
          for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
          name.form.requestSubmit();
        }"""
    )
    expect(preview.get_by_role("row", name="orders")).to_be_visible()
    assert plans.applied == []


def test_the_focus_stays_in_a_dialog_while_its_plan_is_carried_out(scripted: WatchedPage) -> None:
    """CON-154: also where the plan is refused and drawn up anew."""
    plans = Plans(scripted)
    page = plans.page
    create = page.get_by_role("button", name="Create", exact=True)
    page.get_by_label("Name").fill("orders")
    expect(create).to_be_enabled()
    create.press("Enter")
    expect(page.get_by_text("0 of 1 done")).to_be_visible()
    assert plans.focused == "Close"
    plans.respond(status=409, content_type="application/json", body=json.dumps(MOVED))
    expect(page.get_by_text(MOVED["message"] or "")).to_be_visible()
    assert plans.focused == "Cancel"
    expect(create).to_be_enabled()
    create.press("Enter")
    expect(page.get_by_text("0 of 1 done")).to_be_visible()
    end = {"done": 1, "failed": 0, "undo": None, "undo_command": None}
    plans.respond(content_type="text/event-stream", body=f"event: end\ndata: {json.dumps(end)}\n\n")
    expect(page.get_by_text("Done: 1 item")).to_be_visible()
    assert plans.focused == "Close"
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    scripted.forget_errors("409")


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_file_is_written_whole_or_not_at_all(
    scripted: WatchedPage, tmp_path: Path, is_readable: bool
) -> None:
    """CON-116: a form that was sent while its file was being read wrote an empty value."""
    api = ScriptedApi(scripted.page)
    api.answers["topics/orders/records"] = lambda _: NO_RECORDS
    page = scripted.page
    written: list[Any] = []
    page.on(
        "request",
        lambda one: written.append(one.post_data_json) if one.method == "POST" else None,
    )
    page.goto("/orders-prod/topics/orders/records")
    page.get_by_role("button", name="Produce…").click()
    page.get_by_label("Format of the value").select_option("base64")
    page.evaluate(
        """isReadable => {
          const read = Blob.prototype.arrayBuffer;
          const until = new Promise((resolve) => { window.readOn = resolve; });
          Blob.prototype.arrayBuffer = async function () {
            await until;
            if (!isReadable) throw new DOMException("gone", "NotReadableError");
            return read.call(this);
          };
        }""",
        is_readable,
    )
    file = tmp_path / "value.bin"
    file.write_bytes(b"\x00whole")
    page.get_by_label("Value as base64").set_input_files(file)
    produce = page.get_by_role("button", name="Produce", exact=True)
    produce.click()
    page.evaluate("window.readOn()")
    if is_readable:
        expect(page.get_by_text("Written at")).to_be_visible()
        assert [one["value"] for one in written] == [base64.b64encode(b"\x00whole").decode()]
    else:
        expect(page.get_by_text("The file value.bin cannot be read.")).to_be_visible()
        assert written == []
        expect(produce).to_have_attribute("aria-disabled", "false")
