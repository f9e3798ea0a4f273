"""Somebody who has a keyboard alone: walks by Tab, and must see where the focus is at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

#: More stops than this between two things are nobody's way.
STOPS_MAX = 60
#: What is wrong about the element that has the focus (WCAG 2.4.7, 2.4.11); empty where nothing is.
_FOCUS_FAULT = """
() => {
  const element = document.activeElement;
  if (!element || element === document.body) return "nothing has the focus";
  const name = element.outerHTML.slice(0, 120);
  const style = getComputedStyle(element);
  const seen = element.matches(":focus-visible") && style.outlineStyle !== "none"
    && parseFloat(style.outlineWidth) >= 2;
  if (!seen && element.id !== "main") return `not seen: ${name}`;
  const box = element.getBoundingClientRect();
  if (box.width === 0 || box.height === 0) return `has no size: ${name}`;
  const [left, right] = [Math.max(0, box.left), Math.min(innerWidth, box.right)];
  const [top, bottom] = [Math.max(0, box.top), Math.min(innerHeight, box.bottom)];
  if (left >= right || top >= bottom) return `outside of the window: ${name}`;
  for (const x of [0.1, 0.5, 0.9]) for (const y of [0.1, 0.5, 0.9]) {
    const hit = document.elementFromPoint(left + (right - left) * x, top + (bottom - top) * y);
    if (hit && (element.contains(hit) || hit.contains(element))) return "";
  }
  return `covered: ${name}`;
}
"""


class KeyboardUser:
    """One page, by its keys."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        """One key after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Where the focus is."""
        self.page.keyboard.type(text)

    def tab_to(self, target: Locator, key: str = "Tab") -> None:
        """Walk until the target has the focus, which is seen at every stop."""
        target.wait_for()
        for _ in range(STOPS_MAX):
            self.step(key)
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"{target} is not within {STOPS_MAX} stops")

    def step(self, key: str = "Tab") -> bool:
        """One stop on or back, which is seen; False where it is the browser's own bar.

        That is between the last stop of a page, or of a dialog, and its first.
        """
        self.press(key)
        if self.page.evaluate("document.activeElement === document.body"):
            return False
        self.see_focus()
        return True

    def see_focus(self) -> None:
        """The element that has the focus is marked, within the window, and under nothing."""
        fault = self.page.evaluate(_FOCUS_FAULT)
        assert not fault, fault
