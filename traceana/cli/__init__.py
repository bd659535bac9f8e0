"""The command line: one verb a file, each a thin layer over `traceana.api`."""
