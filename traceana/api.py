"""The product as functions: load inputs, diagnose them, ingest them. The command line is a thin layer over these."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traceana import __version__
from traceana.errors import TraceanaError
from traceana_parsers.sources import SourceError, expand

if TYPE_CHECKING:
    from traceana.facts.model import Facts
    from traceana.report.diagnosis import Diagnosis
    from traceana.store.dataset import RunWriter, Tables
    from traceana_parsers.interface import FileReport

_INFLATED = 100  # repetitive logs shrink that much
_IN_MEMORY = 64 << 20  # bytes of input read into memory; above that tables go through a temporary store


@dataclass(frozen=True, slots=True)
class Loaded:
    """Tables of a run and what became of its files (empty when they come from a store)."""

    tables: Tables
    reports: tuple[FileReport, ...] = ()


@contextmanager
def load(paths: Sequence[str], columns: Mapping[str, str] | None = None) -> Iterator[Loaded]:
    """Tables of a run from logs or from a store; large inputs pass through a temporary store, removed afterwards.

    `columns` answers for headings of tables that do not say what they mean: see `traceana_parsers.read.read_run`.

    Raises TraceanaError (exit code 2) when nothing of the inputs could be recognised.
    """
    from traceana.store.dataset import RunWriter, Tables, is_store, open_run
    from traceana_parsers.interface import MemorySink
    from traceana_parsers.read import read_run

    if len(paths) == 1 and is_store(paths[0]):
        yield Loaded(open_run(paths[0])[0])
        return
    try:
        if _size(paths) <= _IN_MEMORY:
            sink = MemorySink()
            reports = read_run(paths, sink, columns)
            _check(reports)
            yield Loaded(Tables(sink.tables), tuple(reports))
            return
        with tempfile.TemporaryDirectory(prefix="traceana-") as folder, RunWriter(Path(folder)) as writer:
            reports = read_run(paths, writer, columns)
            _check(reports)
            yield Loaded(_attributed(writer), tuple(reports))
    except SourceError as error:
        raise TraceanaError(str(error)) from error


def _size(paths: Sequence[str]) -> int:
    """Bytes of the inputs; standard input counts as large, compressed files and Nsight reports a hundred times."""
    total = 0
    for source in expand(paths):
        if source.path == "-":
            return _IN_MEMORY + 1
        size = Path(source.path).stat().st_size
        total += size * _INFLATED if source.path.endswith((".gz", ".zst", ".xz", ".bz2", ".nsys-rep")) else size
    return total


def _check(reports: Sequence[FileReport]) -> None:
    """Raises TraceanaError when no file held a line of a known engine; says what was seen instead."""
    configs = [r for r in reports if r.format == "model_config"]
    others = [r for r in reports if r.format != "model_config"]
    if any(r.recognised for r in others):
        return
    if configs and not others:
        wrong = configs[0].problem or "it is a model's configuration; give it beside the server's log or a trace"
        raise TraceanaError(f"{configs[0].path}: {wrong}")
    reports = others
    trace = next((r for r in reports if r.problem and r.format in ("kineto", "nsight", "nsight_stats")), None)
    first = trace or reports[0]  # what is wrong with a trace says more than the shapes of some text beside it
    more = f" (and {len(reports) - 1} more files)" if len(reports) > 1 else ""
    if first.problem:
        raise TraceanaError(f"{first.path}{more}: {first.problem}")
    unread = sum(r.unread for r in reports)
    if unread:
        known = "1 line looks" if unread == 1 else f"{unread:,} lines look"
        raise TraceanaError(
            f"{first.path}{more}: {known} like lines of a known engine, but none could be read: they fit no known "
            "form. Give the server's own log, unshortened; if it is that, its version is not known yet"
        )
    shapes = "; ".join(f"{count}x {_printable(shape)!r}" for shape, count in first.shapes[:2])
    raise TraceanaError(
        f"{first.path}{more}: none of its {first.lines:,} lines is of a known engine (SGLang, vLLM, NCCL, "
        f"TensorRT-LLM, llama.cpp). Most common: {shapes or 'blank lines'}. Give the server's own log"
    )


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:60]


def read_facts(paths: Sequence[str], columns: Mapping[str, str] | None = None) -> Facts:
    """All facts of a run; `columns` as in `load`.

    Raises TraceanaError (exit code 2) when nothing of the inputs could be recognised.
    """
    from traceana.facts.build import build

    with load(paths, columns) as loaded:
        return build(loaded.tables)


@dataclass(frozen=True, slots=True)
class Said:
    """What the user says of a run's box, where the inputs do not say it or say it wrongly."""

    gpu: str | None = None
    layers: int | None = None
    hidden: int | None = None


def diagnose(
    paths: Sequence[str],
    baseline: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    said: Said | None = None,
) -> Diagnosis:
    """The diagnosis of a run, compared with a baseline run when one is given.

    Args:
        paths: files, folders, globs, `-` for standard input, or a store.
        baseline: the same for a run without speculation.
        columns: as in `load`.
        said: the box of both runs.

    Raises TraceanaError (exit code 2) when an input cannot be used at all.
    """
    from traceana.facts.results import with_results
    from traceana.report.build import diagnosis
    from traceana.rules.registry import run_all

    base = with_results(_with_said(read_facts(baseline, columns), said)) if baseline else None
    facts = with_results(_with_said(read_facts(paths, columns), said), base)
    return diagnosis(facts, run_all(facts, base), base, run_all(base) if base is not None else ())


def _with_said(facts: Facts, said: Said | None) -> Facts:
    if said is None:
        return facts
    from traceana.facts.box import with_said

    return with_said(facts, said.gpu, said.layers, said.hidden)


def columns_of_results() -> frozenset[str]:
    """What the heading of a table of results may mean: the columns of `bench_points`."""
    from traceana_parsers.schema import TABLES

    return frozenset(column.name for column in TABLES["bench_points"])


@dataclass(frozen=True, slots=True)
class Ingested:
    """What `ingest` wrote."""

    folder: Path
    run_id: str
    rows: dict[str, int]
    reports: tuple[FileReport, ...]


def ingest(
    paths: Sequence[str], store: str, run_id: str | None = None, columns: Mapping[str, str] | None = None
) -> Ingested:
    """Reads logs and traces into a store as Parquet tables, one folder per run, visible only when complete.

    What attribution makes of the traces is kept with them, so that reading the store does not make it again.
    `columns` as in `load`.

    Raises TraceanaError (exit code 2) when nothing could be recognised or the store cannot be written.
    """
    from traceana.store.dataset import RunWriter
    from traceana.store.tables import STORED
    from traceana_parsers.read import read_run

    try:
        with RunWriter(Path(store)) as writer:
            reports = read_run(paths, writer, columns)
            _check(reports)
            _add_run_row(writer, writer.flush(), reports)
            tables = _attributed(writer)
            rows = {name: tables.height(name) for name in STORED}
            files: list[dict[str, object]] = [
                {"path": r.path, "bytes": r.bytes, "lines": r.lines, "sha256": file_hash(r.path)}
                for r in reports
                if r.inside is None
            ]
            name = run_id or _run_id(files)
            folder = writer.commit(
                name, {"traceana": __version__, "written": int(time.time()), "inputs": files, "rows": rows}
            )
    except SourceError as error:
        raise TraceanaError(str(error)) from error
    return Ingested(folder, name, rows, tuple(reports))


def _attributed(writer: RunWriter) -> Tables:
    """The tables as written, with what attribution makes of traces."""
    tables = writer.flush()
    if not tables.height("traces"):
        return tables
    from traceana.attribution.results import attribute

    attribute(tables, writer)
    return writer.flush()


def _add_run_row(writer: RunWriter, tables: Tables, reports: Sequence[FileReport]) -> None:
    import polars as pl

    from traceana.facts.build import run_facts
    from traceana_parsers.schema import polars_schema

    who, ranks, spec = run_facts(tables)
    row = {
        "engine": who.engine.value,
        "version": who.version.value,
        "model": who.model.value,
        "quantization": who.quantization.value,
        "tp": ranks.tp.value,
        "pp": ranks.pp.value,
        "dp": ranks.dp.value,
        "ep": ranks.ep.value,
        "method": spec.method.value,
        "k": spec.k.value,
        "topk": spec.topk.value,
        "num_draft_tokens": spec.num_draft_tokens.value,
        "files": len(reports),
    }
    writer.add("runs", pl.DataFrame([row], schema=polars_schema("runs"), orient="row", strict=False))


def file_hash(path: str) -> str | None:
    """SHA-256 of a file, or of the files of an export folder in order of their names; None for standard input."""
    if path == "-":
        return None
    digest = hashlib.sha256()
    place = Path(path)
    for file in sorted(place.iterdir()) if place.is_dir() else [place]:
        if file.is_file():
            with file.open("rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()


def _run_id(files: list[dict[str, object]]) -> str:
    """A name for the run: the first file's stem and a hash over all contents (time, for standard input)."""
    seed = "".join(str(f["sha256"] or time.time_ns()) for f in files)
    stem = Path(str(files[0]["path"])).name.split(".")[0]
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in stem)[:40] or "run"
    return f"{safe}-{hashlib.sha256(seed.encode()).hexdigest()[:10]}"
