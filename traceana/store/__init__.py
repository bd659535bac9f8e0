"""Parquet datasets of runs: written whole or not at all, read as frames."""
