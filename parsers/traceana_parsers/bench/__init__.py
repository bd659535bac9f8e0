"""Readers of benchmark outputs. Each tool's form is a table; what a form means for speculation is decided elsewhere."""
