"""The parts of the differential test: the same requests to Apache Kafka and to Barnabas."""
