"""Tests of TLS: names, keys, contexts, renewal."""
