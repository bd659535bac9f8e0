"""Readers of what a running server says of itself: /metrics, /server_info, per-request fields."""
