"""Logs in by the cases of a file with one Python client; prints what a user gets to see.

    python -m tests.interop.clients.login_attempts CLIENT CASES

Run by a foreign interpreter that has kafka-python, aiokafka and confluent-kafka. A line for each
case: `in`, or the class of the error and its text, or `nothing` where a client tries for ever.
"""

import asyncio
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Case = dict[str, Any]
AT_ONCE = 16
NOTHING = "nothing"
GIVEN_UP_SECONDS = 20
"""kafka-python tries again whatever the cause; aiokafka does not notice that a token was refused,
and asks on and on."""


def token_of(case: Case) -> str:
    with open(case["token_file"]) as file:
        return file.read().strip()


def by_librdkafka(case: Case) -> str:
    from confluent_kafka import KafkaError, KafkaException, Producer

    errors: list[Any] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": case["address"],
        "security.protocol": case["protocol"].lower(),
        "error_cb": errors.append,
        "log_level": 0,
        "reconnect.backoff.ms": 200,
        "reconnect.backoff.max.ms": 500,
    }
    named = {
        "ssl.ca.location": "authority",
        "ssl.certificate.location": "certificate",
        "ssl.key.location": "key",
        "sasl.mechanisms": "mechanism",
        "sasl.username": "username",
        "sasl.password": "password",
    }
    settings |= {key: case[name] for key, name in named.items() if case[name]}
    if case["token_file"]:
        settings["oauth_cb"] = lambda _: (token_of(case), time.time() + 3600)
    producer = Producer(settings)
    deadline = time.monotonic() + case["seconds"]
    while time.monotonic() < deadline:
        producer.poll(0.1)
        # That all are down follows from what went wrong with each.
        told = [one for one in errors if one.code() != KafkaError._ALL_BROKERS_DOWN]
        if told:
            return f"{told[0].name()}: {told[0].str()}"
        try:
            producer.list_topics(timeout=0.5)
            return "in"
        except KafkaException:
            continue
    return NOTHING


def by_kafka_python(case: Case) -> str:
    from kafka import KafkaAdminClient
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return token_of(case)

    timeout_ms = 1000 * min(case["seconds"], GIVEN_UP_SECONDS)
    admin = KafkaAdminClient(
        bootstrap_servers=case["address"],
        security_protocol=case["protocol"],
        bootstrap_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
        ssl_cafile=case["authority"] or None,
        ssl_certfile=case["certificate"] or None,
        ssl_keyfile=case["key"] or None,
        sasl_mechanism=case["mechanism"] or None,
        sasl_plain_username=case["username"] or None,
        sasl_plain_password=case["password"] or None,
        sasl_oauth_token_provider=Provider() if case["token_file"] else None,
    )
    try:
        admin.describe_cluster()
        return "in"
    finally:
        admin.close()


def by_aiokafka(case: Case) -> str:
    from aiokafka import AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.helpers import create_ssl_context

    class Provider(AbstractTokenProvider):
        async def token(self) -> str:
            return token_of(case)

    async def run() -> str:
        named = {"cafile": "authority", "certfile": "certificate", "keyfile": "key"}
        files = {key: case[name] for key, name in named.items() if case[name]}
        producer = AIOKafkaProducer(
            bootstrap_servers=case["address"],
            security_protocol=case["protocol"],
            request_timeout_ms=1000 * case["seconds"],
            ssl_context=create_ssl_context(**files) if "SSL" in case["protocol"] else None,
            sasl_mechanism=case["mechanism"] or "PLAIN",
            sasl_plain_username=case["username"] or None,
            sasl_plain_password=case["password"] or None,
            sasl_oauth_token_provider=Provider() if case["token_file"] else None,
        )
        try:
            async with asyncio.timeout(min(case["seconds"], GIVEN_UP_SECONDS)):
                await producer.start()
                await producer.client.fetch_all_metadata()
            return "in"
        except TimeoutError:
            return NOTHING
        finally:
            await producer.stop()

    return asyncio.run(run())


CLIENTS: dict[str, Callable[[Case], str]] = {
    "librdkafka": by_librdkafka,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


NO_CAUSES = ("StaleMetadata", "Unable to update metadata")
"""aiokafka logs one of these, or both, as it happens to be asking for metadata."""


class Complaints(logging.Handler):
    """What a client logs in one thread instead of raising it: aiokafka says no more."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: dict[int, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        told = record.getMessage()
        if record.name.startswith("aiokafka") and not any(one in told for one in NO_CAUSES):
            lines = self.lines.setdefault(threading.get_ident(), [])
            lines.append(told)


def outcome(client: str, case: Case, complaints: Complaints) -> str:
    complaints.lines.pop(threading.get_ident(), None)
    try:
        told = CLIENTS[client](case)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    logged = sorted(set(complaints.lines.get(threading.get_ident(), ())))
    return " ".join(" | ".join((told, *logged[:1])).split())


def main(client: str, path: str) -> None:
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    with open(path) as file:
        cases = json.load(file)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for told in threads.map(lambda case: outcome(client, case, complaints), cases):
            print(f"result\t{told}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
