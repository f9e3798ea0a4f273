"""A program for tests: reads and writes with a client.properties, and prints what Spark shows.

secured_reading.py VIA CLIENT_PROPERTIES SERVERS TOPIC DIRECTORY

The event log is in DIRECTORY/events; all pages and documents of Spark's web server while the
queries are known go to standard output, with the URL before each.
"""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator

from pyspark.sql import SparkSession

from barnabas_pipelines.jobs.common_options import sink_options
from barnabas_pipelines.jobs.job import load_job
from barnabas_pipelines.jobs.settings import JobSettings, settings_of
from barnabas_pipelines.jobs.streaming import source_options
from barnabas_pipelines.session import session
from barnabas_pipelines.sinks import write_topic, write_topic_stream
from barnabas_pipelines.sources import read_topic, read_topic_stream

PAGES = ("environment", "jobs", "SQL", "StreamingQuery", "executors", "stages")
DOCUMENTS = ("environment", "jobs", "sql?details=true&planDescription=true", "allexecutors")


def main(via: str, properties: str, servers: str, topic: str, directory: str) -> None:
    options = load_job("aggregate").options
    given = {
        "client-properties": properties,
        "bootstrap-servers": servers,
        "topic": topic,
        "target": f"{topic}-copy",
        "checkpoint": f"{directory}/checkpoint",
        "group-by": ["a"],
        "measure": ["count"],
    }
    names = {option.name for option in options}
    settings = settings_of(options, {name: one for name, one in given.items() if name in names})
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{directory}/events",
        "spark.sql.shuffle.partitions": "1",
    }
    spark = session("secured", master="local[1]", with_connector=via == "connector", conf=conf)
    try:
        count = work(spark, settings, topic, via, directory)
        for url, text in shown(spark):
            print(f"== {url}\n{text}")
        print(f"RECORDS {count}")
    finally:
        spark.stop()


def work(spark: SparkSession, settings: JobSettings, topic: str, via: str, directory: str) -> int:
    source, sink = source_options(settings, [topic]), sink_options(settings, f"{topic}-copy")
    batch = {**source, "startingOffsets": "earliest"}
    frame = read_topic(spark, batch, via=via)
    frame.explain(True)
    write_topic(frame.select("key", "value"), sink, via=via)
    stream = read_topic_stream(spark, batch, via=via).select("key", "value")
    query = (
        write_topic_stream(stream, sink, checkpoint=f"{directory}/checkpoint", via=via)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(json.dumps([one.json for one in query.recentProgress], default=str))
    return frame.count()


def shown(spark: SparkSession) -> Iterator[tuple[str, str]]:
    context = spark.sparkContext
    root = context.uiWebUrl
    assert root is not None
    api = f"{root}/api/v1/applications/{context.applicationId}"
    pages = [f"{root}/{page}/" for page in PAGES] + [f"{api}/{one}" for one in DOCUMENTS]
    for url in pages:
        text = fetched(url)
        yield url, text
        for link in sorted(
            set(re.findall(r'href="([^"]*(?:execution|statistics)/\?id=[^"]+)"', text))
        ):
            further = link if link.startswith("http") else root + link
            yield further, fetched(further.replace("&amp;", "&"))


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as opened:
        text: str = opened.read().decode("utf-8", "replace")
    return text


if __name__ == "__main__":
    main(*sys.argv[1:])
