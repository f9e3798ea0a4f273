"""Attempts to log in: each is one browser's, good once and not for long (CON-140)."""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

from barnabas_console.oidc.login_attempts import ATTEMPT_MS, TAKEN_MAX, LoginAttempts
from tests.support.simulated_clock import SimulatedClock


def test_an_attempt_comes_back_as_it_went() -> None:
    attempts = LoginAttempts(SimulatedClock())
    browser = attempts.browser(None)
    begun = attempts.begin(browser)
    assert attempts.take(browser, begun.state) == begun
    digest = hashlib.sha256(begun.code_verifier.encode()).digest()
    assert begun.code_challenge == urlsafe_b64encode(digest).decode().rstrip("=")
    assert 43 <= len(begun.code_verifier) <= 128  # RFC 7636, section 4.1


def test_an_attempt_is_taken_once_and_in_time() -> None:
    clock = SimulatedClock()
    attempts = LoginAttempts(clock)
    browser = attempts.browser(None)
    first, second, third = (attempts.begin(browser) for _ in range(3))
    assert attempts.take(browser, first.state) is not None
    # The last character has bits that say nothing: the same bytes, spelled in another way.
    spelled = [first.state[:-1] + chr(ord(first.state[-1]) + more) for more in (0, 1)]
    assert all(attempts.take(browser, state) is None for state in spelled)
    clock.advance(ATTEMPT_MS - 1)
    assert attempts.take(browser, second.state) is not None
    clock.advance(1)
    assert attempts.take(browser, third.state) is None


def test_no_browser_takes_another_s_attempt() -> None:
    attempts = LoginAttempts(SimulatedClock())
    alice, eve = attempts.browser(None), attempts.browser(None)
    begun = attempts.begin(alice)
    for browser in (eve, None, "", "x" * 100, alice + "\0", "\ud800"):
        assert attempts.take(browser, begun.state) is None
    assert LoginAttempts(SimulatedClock()).take(alice, begun.state) is None
    assert attempts.browser(alice) == alice
    assert attempts.browser("x" * 100) != "x" * 100


def test_no_bit_of_a_state_can_be_changed() -> None:
    attempts = LoginAttempts(SimulatedClock())
    browser = attempts.browser(None)
    data = urlsafe_b64decode(attempts.begin(browser).state + "=")
    for place in range(len(data)):
        bent = bytearray(data)
        bent[place] ^= 1
        assert attempts.take(browser, urlsafe_b64encode(bent).decode().rstrip("=")) is None
    for state in ("", "\0", "é", "====", "A", "A" * 75, "A" * 10_000):
        assert attempts.take(browser, state) is None


def test_what_was_taken_is_bounded() -> None:
    """CON-161: nobody fills the memory by logging in."""
    attempts = LoginAttempts(SimulatedClock())
    browser = attempts.browser(None)
    states = [attempts.begin(browser).state for _ in range(TAKEN_MAX + 1)]
    assert all(attempts.take(browser, state) is not None for state in states)
    assert attempts.take(browser, states[-1]) is None
    # The first made room: from here on its code's provider alone knows that it was used.
    assert attempts.take(browser, states[0]) is not None
