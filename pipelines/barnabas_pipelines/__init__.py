"""Spark on topics: a source, a sink, visible progress and ready-made jobs, for PySpark."""
