"""A small run of `python -m tests.security.renewals`."""

from pathlib import Path

import uvloop

from tests.security.renewals import renew_under_load


def test_renewals_under_load_fail_nothing_and_close_nothing(tmp_path: Path) -> None:
    """SEC-113, SEC-5: half-written and wrong pairs keep the old one."""
    verdict = uvloop.run(renew_under_load(tmp_path, 20))
    assert verdict.is_good, verdict
    assert (verdict.renewals, verdict.refused_pairs) == (20, 4)
    assert verdict.records >= 20
    assert verdict.new_connections > 0
