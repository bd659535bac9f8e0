"""Which reader takes a file of results or a model's configuration: told by how it begins, never by its name.

Text is read beside the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Stream

#: reads an opened file into a sink; `report` is filled, the stream closed
Reader = Callable[[Stream, FileReport, Sink, Mapping[str, str]], None]
# how such files begin: spares logs the import of the readers
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*[\[{])")
_METRICS = re.compile(rb"^(?:# (?:HELP|TYPE) |[A-Za-z_:][A-Za-z0-9_:]*\{[^\n]*\} +[0-9+NI-])", re.MULTILINE)
_CELLS = re.compile(rb"(?:\xef\xbb\xbf)?[^\n:{\[]{1,4000}[,;\t][^\n:{\[]*\r?(?:\n|$)")


def reader_for(head: bytes) -> Reader | None:
    """The reader of a file that begins with `head`; None for anything that is text or no result at all."""
    if _JSON.match(head):
        from traceana_parsers.bench import json_reader

        if json_reader.sniff(head):
            return json_reader.read
        from traceana_parsers import model_config

        if model_config.sniff(head):
            return model_config.read
    if _METRICS.search(head[:4096]):
        from traceana_parsers.metrics import prometheus

        if prometheus.sniff(head):
            return prometheus.read
    if _CELLS.match(head):
        from traceana_parsers.bench import csv_reader

        if csv_reader.sniff(head):
            return csv_reader.read
    return None
