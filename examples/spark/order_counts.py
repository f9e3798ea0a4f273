"""Counts the orders of each customer in the topic `orders`, with Spark.

make spark && .venv-spark/bin/python examples/spark/order_counts.py
"""

import os

from barnabas_pipelines import read_topic, session

BOOTSTRAP = os.environ.get("BOOTSTRAP_SERVERS", "127.0.0.1:9092")

spark = session("order-counts")
orders = read_topic(spark, {"kafka.bootstrap.servers": BOOTSTRAP, "subscribe": "orders"})
counts = orders.groupBy(orders.key.cast("string").alias("customer")).count().orderBy("customer")
for row in counts.collect():
    print(row.customer, row["count"])
spark.stop()
