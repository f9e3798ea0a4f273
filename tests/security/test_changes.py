"""A small run of `python -m tests.security.changes`."""

from pathlib import Path

import uvloop

from tests.security.changes import change_under_load


def test_authorities_and_passwords_change_and_nobody_notices(tmp_path: Path) -> None:
    """SEC-113, SEC-81, SEC-27: three brokers under acks=all."""
    verdict = uvloop.run(change_under_load(tmp_path, 1, 3))
    assert verdict.is_good, verdict
    assert (verdict.authority_changes, verdict.password_changes) == (1, 3)
    assert verdict.records > 0
    assert set(verdict.log_ins) == {"present", "former"}
