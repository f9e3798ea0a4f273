"""The producer: records in, acknowledgements out (`producer.py` is where to start reading)."""

from barnabas_client.producer.delivery import Delivery as Delivery
from barnabas_client.producer.delivery import RecordMetadata as RecordMetadata
from barnabas_client.producer.idempotence import ProducerIdentity as ProducerIdentity
from barnabas_client.producer.interceptors import ProducerInterceptor as ProducerInterceptor
from barnabas_client.producer.interceptors import ProducerRecord as ProducerRecord
from barnabas_client.producer.partitioner import Partitioner as Partitioner
from barnabas_client.producer.partitioner import RoundRobinPartitioner as RoundRobinPartitioner
from barnabas_client.producer.partitioner import partition_of_key as partition_of_key
from barnabas_client.producer.producer import Producer as Producer
