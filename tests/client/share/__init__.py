"""Tests of the share consumer."""
