"""Settings: definitions, parsing, topic and dynamic configs."""
