"""`python -m traceana`."""

from traceana.cli.app import main

main()
