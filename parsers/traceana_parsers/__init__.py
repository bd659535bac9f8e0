"""Readers: files of a run to Arrow tables. They know formats and nothing of diagnosis."""
