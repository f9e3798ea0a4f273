"""A schema registry for tests: a real HTTP server that speaks the registry's REST API.

Real serializers register their schemas with it and real clients read them. It can ask for a
password or a token, fail requests, and be away. It has no compatibility rules, and hands Protobuf
schemas out as it got them, serialized: as `?format=serialized` wants them of a real one.

`python -m tests.support.schema_registry` is one on port 8081, for trying the examples of the docs.

Source: the API reference of Confluent's Schema Registry.
"""

import json
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

NOT_FOUND = {"subject": 40401, "version": 40402, "schema": 40403}


class SchemaRegistry:
    """A registry on 127.0.0.1 while it is entered; `requests` are the paths that were asked for.

    It fails the next `failures_left` requests, and those with `failing` in their path.
    """

    def __init__(
        self,
        *,
        authorization: str | None = None,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self.authorization = authorization
        self.requests: list[str] = []
        self.failures_left = 0
        self.failing = ""
        self._tls = tls
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._closes: list[Callable[[], None]] = []

    def on_exit(self, close: Callable[[], None]) -> None:
        """Call this when the test is done, such as to close a client."""
        self._closes.append(close)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Answer, on the port of the last time if there was one."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer({})

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                self._answer(json.loads(self.rfile.read(length) or b"{}"))

            def _answer(self, body: dict[str, Any]) -> None:
                given = self.headers.get("Authorization")
                status, document = registry.answer(self.command, self.path, body, given)
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        """Be away; what is registered stays."""
        assert self._server is not None
        assert self._thread is not None
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        for close in self._closes:
            close()

    def asked_for(self, part: str) -> int:
        """How many requests had this in their path."""
        return sum(part in path for path in self.requests)

    def answer(
        self, method: str, path: str, body: dict[str, Any], authorization: str | None
    ) -> tuple[int, Any]:
        """Status and document of a request."""
        self.requests.append(path)
        if self.authorization is not None and authorization != self.authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.failures_left or (self.failing and self.failing in path):
            self.failures_left = max(0, self.failures_left - 1)
            return 503, {"error_code": 50003, "message": "no leader"}
        parts = urlsplit(path)
        names = [unquote(one) for one in parts.path.strip("/").split("/")]
        wants_serialized = "serialized" in parse_qs(parts.query).get("format", [])
        match method, names:
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self._register(subject, body)}
            case "POST", ["subjects", subject]:
                return self._lookup(subject, body)
            case "GET", ["subjects", subject, "versions", version]:
                return self._version(subject, version, wants_serialized)
            case "GET", ["schemas", "ids", number]:
                if not 0 < int(number) <= len(self._schemas):
                    return _missing("schema")
                return 200, _shown(self._schemas[int(number) - 1], wants_serialized)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _register(self, subject: str, body: dict[str, Any]) -> int:
        if body not in self._schemas:
            self._schemas.append(body)
        number = self._schemas.index(body) + 1
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _lookup(self, subject: str, body: dict[str, Any]) -> tuple[int, Any]:
        for version, number in enumerate(self._subjects.get(subject, ()), 1):
            if self._schemas[number - 1]["schema"] == body["schema"]:
                return 200, {"subject": subject, "version": version, "id": number, **body}
        return _missing("schema")

    def _version(self, subject: str, version: str, wants_serialized: bool) -> tuple[int, Any]:
        versions = self._subjects.get(subject)
        if versions is None:
            return _missing("subject")
        place = len(versions) if version == "latest" else int(version)
        if not 0 < place <= len(versions):
            return _missing("version")
        number = versions[place - 1]
        schema = _shown(self._schemas[number - 1], wants_serialized)
        return 200, {"subject": subject, "version": place, "id": number, **schema}


def _shown(schema: dict[str, Any], wants_serialized: bool) -> dict[str, Any]:
    """The schema; of Protobuf the text is not to be had here, so nobody may want it."""
    if schema.get("schemaType") == "PROTOBUF" and not wants_serialized:
        return {**schema, "schema": 'syntax = "proto3";'}
    return schema


def _missing(what: str) -> tuple[int, Any]:
    return 404, {"error_code": NOT_FOUND[what], "message": f"{what} not found."}


if __name__ == "__main__":
    with SchemaRegistry(port=8081), suppress(KeyboardInterrupt):
        threading.Event().wait()
