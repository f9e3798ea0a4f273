"""The producer: records in, acknowledgements out (`producer.py` is where to start reading)."""

from barnabas_client.producer.delivery import Delivery as Delivery
from barnabas_client.producer.delivery import RecordMetadata as RecordMetadata
from barnabas_client.producer.producer import Producer as Producer
