"""Sizes of requests to explain a failure."""

MAX_EXPLAIN_BYTES = 48_000_000
"""A body: a log of so much, or a snapshot of some 35 MB in base64."""
