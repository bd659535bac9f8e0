"""Which files belong together: told by names and folders alone, before anything is opened.

- the tables of a Parquet or Arrow export lie in a folder that is read as one;
- reports of `nsys stats`, and the tables of an nsys recipe, with the same name up to the report's are one capture;
- a capture that is there in several forms (`rep.nsys-rep`, `rep.sqlite`, `rep_pqtdir`, `rep_cuda_gpu_trace.csv`) is
  read once, in the form that says most.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace

from traceana_parsers.sources import Source

#: table files of an export folder; the tables by which one is known; what follows the report's name in the folder's
TABLE_SUFFIXES = (".parquet", ".arrow")
_TABLE = re.compile(
    r"(?:(?:CUPTI|ENUM|TARGET_INFO|NVTX|META_DATA)_\w+|EXPORT_META_DATA|StringIds|ANALYSIS_DETAILS)\.(?:parquet|arrow)"
)
_FOLDER = re.compile(r"(?:_pqtdir|_arwdir|\.parquetdir|\.arrowdir)$")

#: reports of nsys stats: names since 2023, names until then
_REPORTS = (
    "cuda_api_gpu_sum", "cuda_api_sum", "cuda_api_trace", "cuda_gpu_kern_gb_sum", "cuda_gpu_kern_sum",
    "cuda_gpu_mem_size_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_sum", "cuda_gpu_trace", "cuda_kern_exec_sum",
    "cuda_kern_exec_trace", "nvtx_gpu_proj_sum", "nvtx_gpu_proj_trace", "nvtx_kern_sum", "nvtx_pushpop_sum",
    "nvtx_pushpop_trace", "nvtx_startend_sum", "nvtx_sum", "osrt_sum",
    "apigpusum", "cudaapisum", "cudaapitrace", "gpukerngbsum", "gpukernsum", "gpumemsizesum", "gpumemtimesum", "gpusum",
    "gputrace", "kernexecsum", "kernexectrace", "nvtxgpuproj", "nvtxkernsum", "nvtxppsum", "nvtxpptrace", "nvtxsesum",
    "nvtxsum", "osrtsum",
)  # fmt: skip
_COMPRESSED = r"(?:\.(?:gz|zst|zstd|xz|bz2))?"
#: `rep_cuda_gpu_trace.csv`, `nvtxsum.csv.gz`, `rep_cuda_gpu_kern_sum_base.csv`
_STATS = re.compile(
    rf"(?P<capture>.*?)(?<![a-z])(?:{'|'.join(_REPORTS)})(?:[_.:-]\w*)?\.(?:csv|tsv|txt){_COMPRESSED}", re.DOTALL
)
#: tables of an nsys recipe and what nsys-jax puts beside them: `nvtx_gpu_proj_trace/trace.parquet`
_RECIPE = re.compile(
    r"(?P<capture>(?:.*?[/_.-])?)(?:nvtx_gpu_proj_trace[/_]+(?:trace|files)|(?:device|system|thread)-metadata)\.parquet",
    re.DOTALL,
)
#: what ends the name of a capture and is no part of it; nsys-jax calls its report `report`
_TAIL = re.compile(r"(?:(?:(?<![^/])|__)report)?[_.-]*$")
_SINGLE = re.compile(rf"(?P<capture>.*)(?:\.sqlite|(?P<report>\.nsys-rep|\.qdrep)){_COMPRESSED}", re.DOTALL)
#: forms of a capture, the one that says most first
FORMS = ("export", "folder", "report", "stats")


@dataclass(frozen=True, slots=True)
class Batch:
    """Files that are read as one capture, mostly one file.

    `form`: one of FORMS, or nothing for files that are told by their content. `instead`: a source that is the same
    capture and is read in their place.
    """

    sources: tuple[Source, ...]
    form: str = ""
    instead: Source | None = None


def table_folder(path: str) -> str | None:
    """The export folder that `path` is, or whose table it is; None when it is neither."""
    if path.endswith(TABLE_SUFFIXES) and not os.path.isdir(path):  # noqa: PTH112
        path = os.path.dirname(path) or "."  # noqa: PTH120 - keeps the folder as the user wrote it
    try:
        names = os.listdir(path)  # noqa: PTH208
    except OSError:
        return None
    return path if any(map(_TABLE.fullmatch, names)) else None


def gathered(sources: Iterable[Source]) -> list[Batch]:
    """The sources as batches, in order of their first file."""
    batches: dict[str, Batch] = {}
    captures: dict[str, str] = {}  # key of a batch -> its capture
    folders: dict[str, str | None] = {}
    for given in sources:
        source = given
        form, capture = _form(source.path, folders)
        key = f"{form}\0{capture}" if form == "stats" else source.path
        if form == "folder":
            key = str(folders[os.path.dirname(source.path)])  # noqa: PTH120
            source = replace(source, path=key, is_folder=True)
        known = batches.get(key)
        if known is None:
            batches[key] = Batch((source,), form)
            captures[key] = capture
        elif form == "stats":
            batches[key] = replace(known, sources=(*known.sources, source))
    best: dict[str, Batch] = {}
    for key, batch in batches.items():
        other = best.setdefault(captures[key], batch)
        if batch.form and _rank(batch.form) < _rank(other.form):
            best[captures[key]] = batch
    return [_read_or_not(batch, best[captures[key]]) for key, batch in batches.items()]


def _read_or_not(batch: Batch, best: Batch) -> Batch:
    return batch if batch is best else replace(batch, instead=best.sources[0])


def _rank(form: str) -> int:
    """Which form says most; a report can only be read where nsys is installed."""
    if form == "report" and shutil.which("nsys") is None:
        return len(FORMS)
    return FORMS.index(form)


def _form(path: str, folders: dict[str, str | None]) -> tuple[str, str]:
    """What kind of file this is, and the path of its capture; something of its own for files of no such kind."""
    folder, name = os.path.split(path)
    if name.endswith(TABLE_SUFFIXES):
        if folder not in folders:
            folders[folder] = table_folder(folder or ".")
        if folders[folder] is not None:
            return "folder", _plain(_FOLDER.sub("", folder))
    match = _SINGLE.fullmatch(path)
    if match:
        return "report" if match["report"] else "export", _plain(match["capture"])
    match = _STATS.fullmatch(name)
    if match:
        return "stats", _plain(os.path.join(folder, match["capture"]))  # noqa: PTH118
    match = _RECIPE.fullmatch(path)
    return ("stats", _plain(match["capture"])) if match else ("", f"\0{path}")


def _plain(capture: str) -> str:
    return _TAIL.sub("", capture)
