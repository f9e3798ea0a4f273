"""The program of the chart's Jobs, against an API server made of a dictionary."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "charts/barnabas/files/release_hook.py"
BROKERS = "/apis/barnabas.dev/v1alpha1/brokers"
TOPICS = "/apis/barnabas.dev/v1alpha1/topics"
IN_SHOP = "/apis/barnabas.dev/v1alpha1/namespaces/shop"
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/demo-operator"
PODS = "/api/v1/namespaces/shop/pods"


class Stub:
    """Answers from `objects`; `answers` are scripted codes of a path, used up one by one."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, list[int]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.is_deletion_slow = False  # something holds up what is deleted

    def answer(self, method: str, target: str, body: Any) -> tuple[int, dict[str, Any]]:
        path = target.partition("?")[0]
        self.asked.append((method, target, body))
        if self.answers.get(path):
            return self.answers[path].pop(0), {}
        if method == "PATCH" and "fieldManager=" in target:
            self.objects[path] = body
        if path not in self.objects:
            return 404, {"reason": "NotFound"}
        if method == "DELETE":
            found = self.objects[path] if self.is_deletion_slow else self.objects.pop(path)
            return 200, found
        if method == "PATCH" and path == DEPLOYMENT:
            self.objects[PODS] = {"items": []}
        return 200, self.objects[path]

    def writes(self) -> list[tuple[str, str, Any]]:
        return [(method, path, body) for method, path, body in self.asked if method != "GET"]


@pytest.fixture
def stub() -> Iterator[tuple[Stub, str]]:
    held = Stub()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            code, document = held.answer(self.command, self.path, body)
            data = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = do_DELETE = _answer

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield held, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def clean_up(server: str) -> list[str]:
    names = ("namespace", "shop", "operator", "demo-operator", "broker", "demo", "release", "demo")
    pairs = [(f"--{names[index]}", names[index + 1]) for index in range(0, len(names), 2)]
    return ["--server", server, "clean-up", *(part for pair in pairs for part in pair)]


def topic(name: str, *finalizers: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "finalizers": [*finalizers]}
    return {"metadata": metadata}


def broker(release: str, *finalizers: str) -> dict[str, Any]:
    annotations = {"meta.helm.sh/release-name": release}
    metadata = {"name": "demo", "namespace": "shop", "uid": "u-demo", "annotations": annotations}
    return {"metadata": {**metadata, "finalizers": [*finalizers]}}


def test_the_broker_is_applied_as_soon_as_its_api_is_served(
    hook: Any, stub: tuple[Stub, str], tmp_path: Path
) -> None:
    """Right after the definition is made, the API server does not know the kind yet."""
    api, server = stub
    path = f"{IN_SHOP}/brokers/demo"
    api.answers[path] = [404, 404, 503, 409, 429]
    manifest = {"metadata": {"name": "demo", "namespace": "shop"}, "spec": {"replicas": 3}}
    file = tmp_path / "broker.json"
    file.write_text(json.dumps(manifest))
    hook.main(["--server", server, "apply", str(file)])
    assert api.objects[path] == manifest
    assert len(api.asked) == 6
    assert all("fieldManager=barnabas-chart&force=true" in target for _, target, _ in api.asked)


def test_a_broker_that_is_refused_is_not_tried_again(
    hook: Any, stub: tuple[Stub, str], tmp_path: Path
) -> None:
    """The release fails at once with the API server's words."""
    api, server = stub
    api.answers[f"{IN_SHOP}/brokers/demo"] = [422]
    file = tmp_path / "broker.json"
    file.write_text(json.dumps({"metadata": {"name": "demo", "namespace": "shop"}}))
    with pytest.raises(hook.ApiError, match="422"):
        hook.main(["--server", server, "apply", str(file)])


def test_clean_up_stops_the_operator_before_it_touches_finalizers(
    hook: Any, stub: tuple[Stub, str]
) -> None:
    """It would put them back; others' finalizers are none of ours."""
    api, server = stub
    api.objects |= {
        DEPLOYMENT: {},
        PODS: {"items": [{}]},
        TOPICS: {
            "items": [
                topic("kept", "barnabas.dev/topic", "example.org/theirs"),
                topic("free"),
            ]
        },
        f"{IN_SHOP}/topics/kept": {},
        f"{IN_SHOP}/brokers/demo": broker("demo"),
    }
    hook.main(clean_up(server))
    assert api.writes() == [
        ("PATCH", DEPLOYMENT, {"spec": {"replicas": 0}}),
        (
            "PATCH",
            f"{IN_SHOP}/topics/kept",
            {"metadata": {"uid": "u-kept", "finalizers": ["example.org/theirs"]}},
        ),
        (
            "DELETE",
            f"{IN_SHOP}/brokers/demo",
            {"propagationPolicy": "Background", "preconditions": {"uid": "u-demo"}},
        ),
    ]
    assert f"{IN_SHOP}/brokers/demo" not in api.objects


def test_a_broker_whose_claims_go_with_it_is_deleted_while_the_operator_runs(
    hook: Any, stub: tuple[Stub, str]
) -> None:
    """Somebody has to delete the claims, and take the finalizer off."""
    api, server = stub
    api.objects |= {
        DEPLOYMENT: {},
        PODS: {"items": []},
        f"{IN_SHOP}/brokers/demo": broker("demo", "barnabas.dev/claims"),
    }
    hook.main(clean_up(server))
    assert [(method, path) for method, path, _ in api.writes()] == [
        ("DELETE", f"{IN_SHOP}/brokers/demo"),
        ("PATCH", DEPLOYMENT),
    ]


def test_a_broker_that_no_operator_ends_is_let_go_with_its_claims_left(
    hook: Any, stub: tuple[Stub, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An uninstall ends also where the operator never came up."""
    api, server = stub
    place = f"{IN_SHOP}/brokers/demo"
    going = broker("demo", "barnabas.dev/claims")
    api.objects |= {DEPLOYMENT: {}, PODS: {"items": []}, BROKERS: {"items": [going]}, place: going}
    monkeypatch.setattr(api, "is_deletion_slow", True)
    hook.main(["--timeout", "0.5", *clean_up(server)])
    released = {"metadata": {"uid": "u-demo", "finalizers": []}}
    assert ("PATCH", place, released) in api.writes()


def test_a_broker_of_somebody_else_stays(hook: Any, stub: tuple[Stub, str]) -> None:
    """It has the name that this release would have given, and another release has made it."""
    api, server = stub
    api.objects |= {
        PODS: {"items": []},
        TOPICS: {"items": []},
        f"{IN_SHOP}/brokers/demo": broker("another"),
    }
    hook.main(clean_up(server))
    assert f"{IN_SHOP}/brokers/demo" in api.objects


def test_clean_up_of_what_is_gone_succeeds(hook: Any, stub: tuple[Stub, str]) -> None:
    """No Deployment, no definitions: an uninstall must still end, and may be repeated."""
    api, server = stub
    api.objects[PODS] = {"items": []}
    hook.main(clean_up(server))
    assert [path for method, path, _ in api.writes()] == [DEPLOYMENT]


def test_only_watched_namespaces_are_cleaned(hook: Any, stub: tuple[Stub, str]) -> None:
    """The Job may not list others where the operator's rights end at a list."""
    api, server = stub
    api.objects |= {PODS: {"items": []}, f"{IN_SHOP}/topics": {"items": [topic("a")]}}
    hook.main([*clean_up(server), "--watched", "shop"])
    assert TOPICS not in [path for _, path, _ in api.asked]


def test_an_api_server_that_stays_away_ends_the_job(hook: Any, stub: tuple[Stub, str]) -> None:
    api, server = stub
    api.answers[DEPLOYMENT] = [503] * 1000
    with pytest.raises(hook.ApiError, match="503"):
        hook.main(["--timeout", "0.05", *clean_up(server)])
