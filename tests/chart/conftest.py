"""Helm for the tests of the chart: skipped where it is not, built where that is asked for."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cache import run
from tests.support.helm import built_helm, found_helm

CHART = Path(__file__).resolve().parents[2] / "charts" / "barnabas"
# A Helm that was built from its module takes the cluster for an old one where there is none.
KUBE_VERSION = ("--kube-version", "1.33.0")
# What Helm made of the same values before: it takes half a second each time.
_RENDERED: dict[tuple[str, str, str], str] = {}
Render = Callable[..., dict[tuple[str, str], dict[str, Any]]]


@pytest.fixture(params=["found", pytest.param("built", marks=pytest.mark.interop)])
def helm(request: pytest.FixtureRequest) -> Path:
    """The program; `make interop` builds it where it is missing, which takes a minute or two."""
    if request.param == "built":
        return built_helm()
    found = found_helm()
    if found is None:
        pytest.skip("helm is neither on the PATH nor in the cache; `make interop` builds it")
    return found


@pytest.fixture
def render(helm: Path, tmp_path: Path) -> Render:
    """Renders the chart with some values; returns the manifests by kind and name."""

    def rendered(
        values: Mapping[str, Any] | None = None,
        *,
        release: str = "demo",
    ) -> dict[tuple[str, str], dict[str, Any]]:
        text = json.dumps(values or {})
        key = (str(helm), release, text)
        if key not in _RENDERED:
            file = tmp_path / "values.json"
            file.write_text(text)
            command: list[str | Path] = [
                helm,
                "template",
                release,
                CHART,
                "--namespace",
                "shop",
                *KUBE_VERSION,
            ]
            _RENDERED[key] = run([*command, "--values", file])
        text = _RENDERED[key]
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
        places = {
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
            for one in documents
        }
        assert len(places) == len(documents)
        return {(one["kind"], one["metadata"]["name"]): one for one in documents}

    return rendered
