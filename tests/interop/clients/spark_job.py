"""Counts a topic with Spark's Kafka connector: in one batch, and as a stream that ends by itself.

Usage: spark_job.py BOOTSTRAP TOPIC JARS FOLDER. After the first stream it waits for a
line on standard input (more was produced meanwhile), and runs the stream again from its checkpoint.
Prints lines `result NAME VALUE`.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def result(name: str, value: object) -> None:
    print(f"result {name} {value}", flush=True)


def main(bootstrap: str, topic: str, jars: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("barnabas-interop")
        .config("spark.jars", ",".join(sorted(str(jar) for jar in Path(jars).glob("*.jar"))))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}

    batch = spark.read.format("kafka").options(**options).option("includeHeaders", "true").load()
    report("batch", batch)
    half = options | {"startingTimestamp": "1700000000500"}
    result("since", spark.read.format("kafka").options(**half).load().count())
    pairs = batch.groupBy("partition").agg(F.count("*").alias("n"), F.max("offset").alias("last"))
    rows = sorted((r["partition"], r["n"], r["last"]) for r in pairs.collect())
    result("partitions", ",".join(f"{p}:{n}:{last}" for p, n, last in rows))

    run_stream(spark, options, folder)
    report("stream", spark.read.parquet(f"{folder}/table"))
    result("waiting", "now")
    sys.stdin.readline()
    run_stream(spark, options, folder)
    report("resumed", spark.read.parquet(f"{folder}/table"))

    sink = spark.range(1000).select(
        F.col("id").cast("string").alias("key"), F.lit("from spark").alias("value")
    )
    sink.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(
        "topic", f"{topic}-sink"
    ).save()
    back = options | {"subscribe": f"{topic}-sink"}
    result(
        "sink", spark.read.format("kafka").options(**back).load().select("key").distinct().count()
    )
    spark.stop()


def run_stream(spark: SparkSession, options: dict[str, str], folder: str) -> None:
    """`Trigger.AvailableNow` in several batches, to files with a checkpoint."""
    stream = (
        spark.readStream.format("kafka")
        .options(**options)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "20000")
        .load()
        .writeStream.format("parquet")
        .option("path", f"{folder}/table")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()


def report(name: str, frame: DataFrame) -> None:
    """How many records, how many different ones, and the sum of their numbers."""
    number = F.col("value").cast("string").cast("long")
    row = frame.agg(
        F.count("*").alias("n"),
        F.countDistinct("partition", "offset").alias("distinct"),
        F.sum(number).alias("total"),
    ).collect()[0]
    result(name, f"{row['n']},{row['distinct']},{row['total']}")


if __name__ == "__main__":
    main(*sys.argv[1:5])
