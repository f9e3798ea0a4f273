"""Helm for the tests of the chart: skipped where it is not, built where that is asked for."""

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendered_chart import CHART, KUBE_VERSION, Render
from tests.support.cache import run
from tests.support.helm import built_helm, found_helm

# What Helm made of the same values before, as JSON: Helm takes half a second each time, and
# reading so much YAML takes longer.
_RENDERED: dict[tuple[str, str, str], str] = {}


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
            made = yaml.load_all(run([*command, "--values", file]), yaml.CSafeLoader)
            _RENDERED[key] = json.dumps([document for document in made if document is not None])
        documents = json.loads(_RENDERED[key])
        places = {
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
            for one in documents
        }
        assert len(places) == len(documents)
        return {(one["kind"], one["metadata"]["name"]): one for one in documents}

    return rendered


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the release's hook, which a chart brings as a file, without its pauses."""
    spec = importlib.util.spec_from_file_location(
        "release_hook", CHART / "files" / "release_hook.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    return module
