"""Timing wheel and parked operations."""
