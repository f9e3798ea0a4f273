"""Keys and values by a schema registry: Avro, Protobuf and JSON Schema."""
