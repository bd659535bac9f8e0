"""The attribution of a run as tables: made process by process, and of each slab by slab.

`ingest` keeps them in the store; they are made anew from the stored events when other code than this made them.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import polars as pl

from traceana.attribution.late import last_to_arrive, late_ranks
from traceana.attribution.model import PROCESS, TIMELINE, Process
from traceana.attribution.names import FileNames
from traceana.attribution.process import Matched, attribute_process, shaped
from traceana.attribution.ranks import match_ranks, splits
from traceana.attribution.skew import Tally, judge

if TYPE_CHECKING:
    from traceana.store.dataset import Tables
    from traceana_parsers.interface import Sink

#: what the results follow from, beside the events: packages, and the files of each (none: all Python files)
_CODE = {
    "traceana.attribution": (),
    "traceana.store": ("tables.py",),
    "traceana_parsers": ("kernels.py", "kernels.toml"),
    "traceana_parsers.traces": ("annotations.py", "annotation_forms.py"),
}
_MATCHED = [
    *PROCESS, "device", "stream", "start_ns", "end_ns", "name_id", "collective", "bytes", "group_name", "group_size",
]  # fmt: skip


@cache
def version() -> str:
    """Fingerprint of the code that makes the results."""
    digest = hashlib.sha256()
    for package, wanted in _CODE.items():
        files = resources.files(package)
        names = wanted or sorted(file.name for file in files.iterdir() if file.name.endswith(".py"))
        for name in names:
            digest.update(files.joinpath(name).read_bytes())
    return digest.hexdigest()[:16]


def attribute(tables: Tables, sink: Sink) -> None:
    """Adds the result tables (store.tables.ATTRIBUTION_TABLES) of a run's traces to `sink`; none without traces.

    Raises LedgerError when buckets do not add up, which is an error of ours.
    """
    traces = tables.frame("traces")
    if not traces.height:
        return
    match = match_ranks(_comparable(tables), wall_clock="relative" not in traces["clock"].to_list())
    sink.add("matched_collectives", shaped(match.members, "matched_collectives"))
    sink.add("clock_offsets", shaped(match.offsets, "clock_offsets"))
    skew = judge(match.members) if match.members.height else None
    matched = Matched(None if skew is None else splits(match.members), last_to_arrive(match.members))
    notes = json.dumps(match.notes)
    del match  # the events of each process come next
    alone, arrivals = Tally(), []
    processes = traces.select(PROCESS).unique(maintain_order=True)
    for (file_id,), rows in processes.group_by("file_id", maintain_order=True):
        names = FileNames(tables, file_id)
        for who in rows.iter_rows():
            arrivals.append(attribute_process(tables, Process(*who), names, matched, sink, alone))
    sink.add("late_ranks", shaped(late_ranks(pl.concat(arrivals)), "late_ranks"))
    skew = skew or alone.verdict()
    row = {
        "version": version(),
        "skew": skew.kind,
        "skew_provenance": skew.provenance,
        "skew_reason": skew.reason,
        "instances": skew.instances,
        "ranks": skew.ranks,
        "transfer_ns": skew.transfer_ns,
        "wait_ns": skew.wait_ns,
        "notes": notes,
    }
    sink.add("attribution", shaped(pl.DataFrame([row]), "attribution"))


def _comparable(tables: Tables) -> pl.DataFrame:
    """Collectives to match; those of one timeline have no others to be matched with, and may be many."""
    lanes = [piece.unique() for piece in tables.pieces("collectives", list(TIMELINE))]
    several = bool(lanes) and pl.concat(lanes).n_unique() > 1
    return tables.frame("collectives", _MATCHED, None if several else {"file_id": []})


def is_current(tables: Tables) -> bool:
    """Whether a store holds results that this code made."""
    found = tables.frame("attribution", ["version"])["version"].to_list()
    return found == [version()]
