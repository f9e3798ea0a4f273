"""Writes ten orders and reads them as the group `billing`, with confluent-kafka (librdkafka).

pip install confluent-kafka && python orders_librdkafka.py
"""

import os

from confluent_kafka import Consumer, Producer

ADDRESS = {"bootstrap.servers": os.environ.get("BOOTSTRAP_SERVERS", "127.0.0.1:9092")}
COUNT = 10

producer = Producer({**ADDRESS, "enable.idempotence": True})
for number in range(COUNT):
    producer.produce("orders", f"order {number}", key=f"customer-{number % 3}")
if producer.flush(30):
    raise SystemExit("not all orders were written within 30 s")

consumer = Consumer({**ADDRESS, "group.id": "billing", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
count = 0
while count < COUNT:
    record = consumer.poll(1)
    if record is None:
        continue
    if record.error():
        raise SystemExit(record.error().str())
    print(record.key().decode(), record.value().decode())
    count += 1
consumer.close()
