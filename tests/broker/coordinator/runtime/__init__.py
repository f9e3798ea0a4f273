"""Tests of the coordinator runtime."""
