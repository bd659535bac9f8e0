"""The columns of every table, one module per kind of input; `schema.py` puts them together."""
