"""Records by the API of the page, on a real broker (CON-113, CON-116, CON-136)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import ClientError, ClientResponse, web
from aiohttp.test_utils import TestClient

from barnabas_client.producer.producer import Producer
from barnabas_console.api import long_response
from barnabas_console.api import records as api_records
from barnabas_console.records import reading_budget, record_writing
from barnabas_console.records.masking import MaskRules, TopicMask
from tests.console.records.readings import Written, create_topic, viewer_of, write
from tests.support.console_server import OWN, running_console, told
from tests.support.in_process_broker import DEADLINE_SECONDS, eventually

Client = TestClient[Any, Any]


async def posted(client: Client, path: str, body: Any, status: int = 200) -> dict[str, Any]:
    async with client.post(f"/api/v1{path}", headers=OWN, json=body) as response:
        found: dict[str, Any] = await response.json()
        assert response.status == status, found
        return found


async def events(response: ClientResponse) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The events of a stream."""
    name = ""
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def filled(bootstrap: str, topic: str, records: list[Written], partitions: int = 2) -> None:
    async with viewer_of(bootstrap) as viewer:
        await create_topic(viewer, topic, partitions)
    await write(bootstrap, topic, records)


def test_an_export_that_is_not_read_in_time_does_not_look_whole(
    bootstrap: str, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-124: the download of a browser that stops reading fails, and its seat is free again."""
    monkeypatch.setattr(long_response, "SEND_SECONDS_MAX", 0.2)
    monkeypatch.setattr(api_records, "line_writer", lambda _: (b"", lambda _: b"x" * 5_000_000))
    lines: list[str] = []

    async def has_ended() -> bool:
        return any(json.loads(line)["act"] == "export ended" for line in lines)

    async def run() -> None:
        topic = unique("slow-reader")
        await filled(bootstrap, topic, [Written(0, 1_000 + n, b"%d" % n) for n in range(10)])
        async with (
            running_console(bootstrap, write_audit_line=lines.append) as client,
            client.get(f"/api/v1/topics/{topic}/export", headers=OWN) as response,
        ):
            await eventually(has_ended)
            with pytest.raises(ClientError):
                await response.read()

    asyncio.run(run())


def test_pages_go_both_ways(bootstrap: str, unique: Callable[[str], str]) -> None:
    """CON-113."""

    async def run() -> None:
        topic = unique("both-ways")
        await filled(bootstrap, topic, [Written(n % 2, 1_000 + n, b"%d" % n) for n in range(10)])
        async with running_console(bootstrap) as client:
            newest = await told(client, f"/topics/{topic}/records?limit=4")
            assert [row["value"] for row in newest["rows"]] == ["9", "8", "7", "6"]
            older = await told(client, f"/topics/{topic}/records?limit=4&at={newest['older']}")
            assert [row["value"] for row in older["rows"]] == ["5", "4", "3", "2"]
            newer = await told(client, f"/topics/{topic}/records?limit=9&at={older['newer']}")
            assert [row["value"] for row in newer["rows"]] == ["6", "7", "8", "9"]
            missing = await told(client, f"/topics/{topic}-none/records", 404)
            assert missing["message"].startswith(f"No such topic '{topic}-none'.")
            zeros = "0" * 11
            for wrong in (
                *("at=never", "limit=0", "limit=501", "partition=x", "value_format=xml"),
                # Zeros hide no larger number.
                *(f"limit={zeros}1000000", f"partition={zeros}99999999999", "limit=" + "9" * 5_000),
            ):
                refused = await told(client, f"/topics/{topic}/records?{wrong}", 400)
                assert refused["message"]

    asyncio.run(run())


def test_one_record_is_whole_and_its_bytes_are_downloaded(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    async def run() -> None:
        topic = unique("whole")
        value = b'{"id":9007199254740993,"x":"' + b"x" * 10_000 + b'"}'
        await filled(bootstrap, topic, [Written(1, 1_000, value, b"\xff")])
        async with running_console(bootstrap) as client:
            one = await told(client, f"/topics/{topic}/records/1/0")
            assert one["value"] == value.decode()
            assert (one["key"], one["key_format"], one["value_is_cut"]) == ("ff", "hex", False)
            (row,) = (await told(client, f"/topics/{topic}/records"))["rows"]
            assert (len(row["value"]), row["value_is_cut"]) == (4096, True)
            path = f"/api/v1/topics/{topic}/records/1/0?raw=key"
            url = (await posted(client, "/tickets", {"path": path}))["url"]
            async with client.get(url) as response:
                assert await response.read() == b"\xff"
                assert "attachment" in response.headers["Content-Disposition"]
                assert response.content_type == "application/octet-stream"
            async with client.get(url) as response:
                assert response.status == 403
            await told(client, f"/topics/{topic}/records/1/7", 404)

    asyncio.run(run())


def test_scan_streams_what_it_finds_and_how_far_it_read(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    async def run() -> None:
        topic = unique("streamed")
        await filled(
            bootstrap, topic, [Written(n % 2, 1_000 + n, b'{"n":%d}' % n) for n in range(600)]
        )
        async with running_console(bootstrap) as client:
            path = f"/api/v1/topics/{topic}/scan"
            body = {"filter": "json.n>=590", "limit": 50}
            async with client.post(path, headers=OWN, json=body) as response:
                found = [event async for event in events(response)]
            assert [json.loads(data["value"])["n"] for name, data in found if name == "record"] == (
                list(range(599, 589, -1))
            )
            name, last = found[-1]
            assert (name, last["reason"], last["go_on"]) == ("end", "all read", None)
            assert sum(one["read_to"] - one["read_from"] for one in last["ranges"]) == 600
            refused = await posted(client, f"/topics/{topic}/scan", {"filter": "kay=1"}, 400)
            assert "did you mean key" in refused["message"]

    asyncio.run(run())


def test_scans_have_seats(
    bootstrap: str, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-136: one too many is refused in words."""
    monkeypatch.setattr(reading_budget, "SCANS_MAX", 0)

    async def run() -> None:
        topic = unique("seats")
        async with running_console(bootstrap) as client:
            refused = await posted(client, f"/topics/{topic}/scan", {}, 429)
            assert "run already" in refused["message"]

    asyncio.run(run())


def test_tail_shows_what_comes_from_now_on(bootstrap: str, unique: Callable[[str], str]) -> None:
    async def run() -> None:
        topic = unique("tailed")
        await filled(bootstrap, topic, [Written(0, 1_000, b"before")])
        async with running_console(bootstrap) as client, asyncio.timeout(DEADLINE_SECONDS):
            path = f"/api/v1/topics/{topic}/tail"
            async with (
                client.get(path, headers=OWN) as everything,
                client.get(f"{path}?filter=value~a1", headers=OWN) as chosen,
            ):
                ways = [events(everything), events(chosen)]
                for way in ways:
                    assert (await anext(way))[0] == "progress"
                await write(
                    bootstrap, topic, [Written(n % 2, 2_000, b"a%d" % n) for n in range(20)]
                )
                expected = [{f"a{n}" for n in range(20)}, {"a1", *(f"a1{n}" for n in range(10))}]
                for way, values in zip(ways, expected, strict=True):
                    seen: list[str] = []
                    async for name, data in way:
                        if name == "record":
                            seen.append(data["value"])
                        if len(seen) == len(values):
                            break
                    assert set(seen) == values

    asyncio.run(run())


def test_tail_of_a_deleted_topic_ends_in_words(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """CON-173."""

    async def run() -> None:
        topic = unique("gone")
        await filled(bootstrap, topic, [])
        async with running_console(bootstrap) as client, asyncio.timeout(DEADLINE_SECONDS):
            async with client.get(f"/api/v1/topics/{topic}/tail", headers=OWN) as response:
                way = events(response)
                await anext(way)
                async with viewer_of(bootstrap) as viewer:
                    (await viewer.admin.topics.delete([topic])).unwrap()
                last = [event async for event in way][-1]
            assert last[0] == "end"
            assert topic in last[1]["message"]

    asyncio.run(run())


@pytest.mark.parametrize(("how", "count"), [("jsonl", 600), ("csv", 601)])
def test_export_has_each_record_once(
    bootstrap: str, unique: Callable[[str], str], how: str, count: int
) -> None:
    """CON-124: streamed, by a one-time ticket; what a spreadsheet would run is text."""

    async def run() -> None:
        topic = unique("exported")
        records = [Written(n % 2, 1_000 + n, b'=1+1 "%d"' % n, b"k") for n in range(600)]
        await filled(bootstrap, topic, records)
        async with running_console(bootstrap) as client:
            path = f"/api/v1/topics/{topic}/export?format={how}&filter=key%3Dk"
            url = (await posted(client, "/tickets", {"path": path}))["url"]
            async with client.get(url) as response:
                lines = (await response.text()).splitlines()
                assert f'filename="{topic}.{how}"' in response.headers["Content-Disposition"]
        assert len(lines) == len(set(lines)) == count
        if how == "jsonl":
            values = {json.loads(line)["value"] for line in lines}
            assert values == {f'=1+1 "{n}"' for n in range(600)}
        else:
            assert lines[0] == "partition,offset,timestamp,key,value,headers"
            assert lines[1] == '0,0,1970-01-01T00:00:01.000Z,k,"\'=1+1 ""0""",'

    asyncio.run(run())


def test_record_is_produced_as_it_was_typed(bootstrap: str, unique: Callable[[str], str]) -> None:
    """CON-116."""

    async def run() -> None:
        topic = unique("produced")
        await filled(bootstrap, topic, [])
        async with running_console(bootstrap) as client:
            written = await posted(
                client,
                f"/topics/{topic}/records",
                {
                    "key": "00ff",
                    "key_format": "hex",
                    "value": '{"id": 9007199254740993}',
                    "value_format": "json",
                    "headers": [["trace", "x"], ["none", None]],
                    "partition": 1,
                    "timestamp_ms": 1_795_284_278_811,
                },
                201,
            )
            assert (written["partition"], written["offset"]) == (1, 0)
            one = await told(client, f"/topics/{topic}/records/1/0")
            assert (one["key"], one["value"]) == ("00ff", '{"id": 9007199254740993}')
            assert one["headers"] == [["trace", "x"], ["none", None]]
            assert one["timestamp_ms"] == 1_795_284_278_811
            for wrong in (
                {"value": "{", "value_format": "json"},
                {"value": "0g", "value_format": "hex"},
                {"value": 5},
                {"value_format": "xml"},
                {"partition": 9},
                {"partition": -1},
                {"headers": [["a", 5]]},
                {"headers": "x"},
            ):
                await posted(client, f"/topics/{topic}/records", wrong, 400)
            await posted(client, f"/topics/{topic}-none/records", {"value": "x"}, 404)

    asyncio.run(run())


def test_headers_that_are_no_text_are_told_and_written_by_their_bytes(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """CON-116: an id of sixteen bytes was written again as the escapes that it is shown as."""

    async def run() -> None:
        topic = unique("headers")
        await filled(bootstrap, topic, [])
        async with running_console(bootstrap) as client:
            headers = [["id", "00ff", "hex"], ["no bytes", "", "hex"], ["text", "\\xff"]]
            headers += [[f"h{number}", "x"] for number in range(60)]
            body = {"value": "x", "headers": headers, "partition": 0}
            await posted(client, f"/topics/{topic}/records", body, 201)
            one = await told(client, f"/topics/{topic}/records/0/0")
            assert one["headers"][:3] == [["id", "\x00\\xff"], ["no bytes", ""], ["text", "\\xff"]]
            assert one["headers_hex"] == ["00ff", *[None] * 62]
            assert len(one["headers"]) == one["header_count"] == 63
            for wrong in (["a", "0g", "hex"], ["a", None, "hex"], ["a", "00", "base64"]):
                await posted(client, f"/topics/{topic}/records", {"headers": [wrong]}, 400)
        mask = TopicMask(headers=frozenset({"text"}))
        async with running_console(bootstrap, masks=MaskRules([(topic, mask)])) as client:
            one = await told(client, f"/topics/{topic}/records/0/0")
            assert one["headers_hex"] == [None] * 63

    asyncio.run(run())


def test_record_that_is_not_acknowledged_may_be_written(
    bootstrap: str, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-116: whoever is told nothing of that writes it twice."""
    monkeypatch.setattr(record_writing, "WRITE_SECONDS_MAX", 0)

    async def run() -> None:
        topic = unique("doubt")
        await filled(bootstrap, topic, [])
        async with running_console(bootstrap) as client:
            error = await posted(client, f"/topics/{topic}/records", {"value": "x"}, 504)
            assert "may be written" in error["message"]
            assert "before you produce it again" in error["hint"]

    asyncio.run(run())


def test_dead_letters_go_back_to_their_topics(bootstrap: str, unique: Callable[[str], str]) -> None:
    """CON-116: of share groups (KIP-1191) with and without a copy, of Connect and of Spring."""

    async def run() -> None:
        orders, letters = unique("orders"), unique("letters")
        await filled(bootstrap, orders, [Written(1, 1_000, b"from the topic", b"k0")])
        await filled(bootstrap, letters, [], partitions=1)
        dlq = [("__dlq.errors.topic", orders.encode()), ("__dlq.errors.partition", b"1")]
        sent: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
            (b"k1", b"copied", [*dlq, ("__dlq.errors.offset", b"0"), ("trace", b"t")]),
            (None, None, [*dlq, ("__dlq.errors.offset", b"0")]),
            (None, None, [*dlq, ("__dlq.errors.offset", b"999")]),
            (b"k3", b"connect", [("__connect.errors.topic", orders.encode())]),
            (b"k4", b"spring", [("kafka_dlt-original-topic", orders.encode())]),
            (b"k5", b"no letter", []),
        ]
        async with Producer(bootstrap) as producer:
            for key, value, headers in sent:
                await producer.send(letters, value, key=key, headers=headers)
        async with running_console(bootstrap) as client:
            places = [[0, offset] for offset in (*range(len(sent)), 77)]
            path = f"/topics/{letters}/resend"
            preview = (await posted(client, path, {"records": places, "preview": True}))["rows"]
            assert [row["to_topic"] for row in preview] == [*[orders] * 5, None, None]
            assert [bool(row["problem"]) for row in preview] == [
                False,
                False,
                True,
                False,
                False,
                True,
                True,
            ]
            assert preview[1]["is_from_origin"] and preview[1]["value"] == "from the topic"
            rows = (await posted(client, path, {"records": places}))["rows"]
            assert [bool(row["written"]) for row in rows] == [not row["problem"] for row in preview]
            page = await told(client, f"/topics/{orders}/records?at=oldest")
            found = {(row["key"], row["value"]): row["headers"] for row in page["rows"]}
            assert found == {
                ("k0", "from the topic"): [],
                ("k1", "copied"): [["trace", "t"]],
                ("k3", "connect"): [],
                ("k4", "spring"): [],
            }
            assert len(page["rows"]) == 5
            for wrong in ([], [[0]], [[0, -1]], "x", [[0, 0]] * 501):
                await posted(client, path, {"records": wrong}, 400)

    asyncio.run(run())


SECRET = "4111-1111"


def test_masked_fields_leave_by_no_way(bootstrap: str, unique: Callable[[str], str]) -> None:
    """CON-144, CON-172: page, record, scan, tail, export, raw bytes, re-send, in every format."""

    async def run() -> None:
        topic, other = unique("payments"), unique("other")
        value = b'{"card":"4111-1111","n":1}'
        await filled(bootstrap, topic, [Written(0, 1_000, value, b"4111-1111")])
        await filled(bootstrap, other, [])
        masks = MaskRules([(topic, TopicMask(key=True, paths=(("card",),)))])
        async with running_console(bootstrap, masks=masks) as client:

            async def text_of(method: str, path: str, **options: Any) -> str:
                async with client.request(
                    method, f"/api/v1/topics/{topic}/{path}", headers=OWN, **options
                ) as response:
                    return await response.text()

            texts = [await text_of("POST", "scan", json={"filter": "json.n=1"})]
            for how in ("auto", "json", "text", "hex", "number", "msgpack"):
                formats = f"key_format={how}&value_format={how}"
                texts.append(await text_of("GET", f"records?{formats}"))
                texts.append(await text_of("GET", f"records/0/0?{formats}"))
                texts.append(await text_of("GET", f"export?{formats}"))
                texts.append(await text_of("GET", f"export?format=csv&{formats}"))
            assert all("•••" in text for text in texts)
            texts.append(await text_of("GET", "records/0/0?raw=value"))
            assert "MASKED" in texts[-1]
            for body in ({"preview": True}, {}):
                texts.append(
                    await text_of(
                        "POST", "resend", json={"records": [[0, 0]], "to_topic": other, **body}
                    )
                )
                assert "masked" in texts[-1]
            assert not any(SECRET in text or SECRET.encode().hex() in text for text in texts)
            for oracle in ("key=4111-1111", "4111", "json.card=4111-1111", "value~4111"):
                found = await text_of("POST", "scan", json={"filter": oracle})
                assert "event: record" not in found
            assert not (await told(client, f"/topics/{other}/records"))["rows"]

    asyncio.run(run())


def test_each_reading_and_writing_is_a_line_of_the_audit_log(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """CON-145: who, topic, place, filter; never what was read."""

    async def run() -> None:
        topic = unique("audited")
        await filled(bootstrap, topic, [Written(0, 1_000, b"secret", b"secret")])
        lines: list[str] = []
        async with running_console(bootstrap, write_audit_line=lines.append) as client:
            await told(client, f"/topics/{topic}/records?partition=0")
            await told(client, f"/topics/{topic}/records/0/0")
            async with client.post(
                f"/api/v1/topics/{topic}/scan", headers=OWN, json={"filter": "key=a"}
            ) as response:
                await response.read()
            async with client.get(f"/api/v1/topics/{topic}/export", headers=OWN) as response:
                await response.read()
            async with client.get(f"/api/v1/topics/{topic}/tail", headers=OWN):
                pass
            async with asyncio.timeout(DEADLINE_SECONDS):
                while "tail ended" not in "".join(lines):
                    await asyncio.sleep(0.01)
            await posted(client, f"/topics/{topic}/records", {"value": "secret"}, 201)
            letters = {"records": [[0, 0]], "to_topic": topic}
            await posted(client, f"/topics/{topic}/resend", {**letters, "preview": True})
            await posted(client, f"/topics/{topic}/resend", letters)
        told_lines = [json.loads(line) for line in lines]
        assert [line["act"] for line in told_lines] == [
            "read records",
            "read record",
            "scan records",
            "scan ended",
            "export records",
            "export ended",
            "tail records",
            "tail ended",
            "produce record",
            "read dead letters",
            "resend records",
        ]
        assert {line["principal"] for line in told_lines} == {"User:ANONYMOUS"}
        assert {line["topic"] for line in told_lines} == {topic}
        assert told_lines[0]["partitions"] == [0]
        assert (told_lines[0]["count"], told_lines[0]["ranges"]) == (1, [[0, 0, 1]])
        assert told_lines[2]["filter"] == "key=a"
        assert "secret" not in "".join(lines)

    asyncio.run(run())


def test_a_reading_that_breaks_off_has_both_lines_of_the_audit_log(
    bootstrap: str,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CON-145; a browser that goes away is no bug of the console's."""

    async def gone(*_: Any) -> None:
        raise ConnectionResetError("Cannot write to closing transport")

    async def run() -> None:
        topic = unique("broken")
        await filled(bootstrap, topic, [Written(0, 1_000, b"x")])
        lines: list[str] = []
        async with running_console(bootstrap, write_audit_line=lines.append) as client:
            monkeypatch.setattr(web.StreamResponse, "write", gone)
            for method, path in (
                ("POST", f"topics/{topic}/scan"),
                ("GET", f"topics/{topic}/export"),
                ("GET", f"topics/{topic}/tail"),
                ("GET", "exports/topics"),
            ):
                body = {} if method == "POST" else None
                with pytest.raises(ClientError):
                    async with client.request(
                        method, f"/api/v1/{path}", headers=OWN, json=body
                    ) as response:
                        await response.read()
        assert [json.loads(line)["act"] for line in lines] == [
            *("scan records", "scan ended"),
            *("export records", "export ended"),
            *("tail records", "tail ended"),
        ]
        assert not [record for record in caplog.records if record.exc_info]

    asyncio.run(run())


def test_a_browser_has_four_streams_and_the_next_is_told_why(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """CON-160: tails, scans and changes together, so that its page still gets everything else."""

    async def run() -> None:
        topic = unique("four-streams")
        await filled(bootstrap, topic, [Written(0, 1_000, b"1")])
        mine, other = ({**OWN, "X-Barnabas-Browser": name} for name in ("mine", "other"))
        path = f"/api/v1/topics/{topic}"

        async with running_console(bootstrap) as client, AsyncExitStack() as open_tails:
            tails = [
                await open_tails.enter_async_context(client.get(f"{path}/tail", headers=mine))
                for _ in range(4)
            ]
            assert [tail.status for tail in tails] == [200] * 4

            async def fifth(method: str, where: str, headers: dict[str, str]) -> int:
                async with client.request(method, where, headers=headers, json={}) as response:
                    if response.status == 429:
                        refusal = await response.json()
                        assert "4 tails, searches or changes" in refusal["message"]
                        assert "Stop one" in refusal["hint"]
                    return response.status

            assert await fifth("GET", f"{path}/tail", mine) == 429
            assert await fifth("POST", f"{path}/scan", mine) == 429
            assert await fifth("POST", "/api/v1/plans/none/apply", mine) == 429
            assert await fifth("GET", f"{path}/records", mine) == 200
            assert await fifth("GET", f"{path}/export", mine) == 200
            assert await fifth("POST", "/api/v1/plans/none/apply", other) == 404
            tails[0].close()

            async def is_let_in() -> bool:
                return await fifth("POST", "/api/v1/plans/none/apply", mine) == 404

            await eventually(is_let_in)

    asyncio.run(run())
