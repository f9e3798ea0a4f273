"""Where the chart is, and what a test gets that renders it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

CHART = Path(__file__).resolve().parents[2] / "charts" / "barnabas"
# A Helm that was built from its module takes the cluster for an old one where there is none.
KUBE_VERSION = ("--kube-version", "1.33.0")
Render = Callable[..., dict[tuple[str, str], dict[str, Any]]]
