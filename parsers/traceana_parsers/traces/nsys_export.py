"""Opens Nsight Systems reports (.nsys-rep, .qdrep) by letting an installed `nsys` export them to SQLite."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Source
from traceana_parsers.traces import nsight_sqlite
from traceana_parsers.traces.nsight_environment import OnText

SUFFIXES = (".nsys-rep", ".qdrep")
TIMEOUT_S = 1800.0  # seconds an export may take


def sniff(head: bytes, path: str) -> bool:
    """True for a report by its file name (the format is not documented); an SQLite file of that name is none."""
    return path.endswith(SUFFIXES) and not head.startswith(nsight_sqlite.MAGIC)


def export_command(report: str, output: str, nsys: str = "nsys") -> list[str]:
    """The command that exports a report to SQLite, with the payloads that tell NCCL ranks."""
    return [nsys, "export", "--type", "sqlite", "--include-blobs=true", "--force-overwrite=true", "-o", output, report]


def read(
    source: Source, file_id: int, sink: Sink, on_text: OnText | None = None, timeout_s: float = TIMEOUT_S
) -> FileReport:
    """Exports the report into a temporary folder, reads the export and removes it.

    Never raises: when `nsys` is not on PATH, fails or takes too long, `problem` says so, with the command to run.
    """
    report = FileReport(file_id, source.path, format="nsight")
    by_hand = shlex.join(export_command(source.path, _beside(source.path)))
    try:
        report.modified = source.modified
        report.bytes = Path(source.path).stat().st_size
    except (OSError, ValueError) as error:
        report.problem = str(getattr(error, "strerror", None) or error)
        return report
    nsys = shutil.which("nsys")
    if nsys is None:
        report.problem = f"an Nsight Systems report, and no nsys on PATH to open it; run: {by_hand}"
        return report
    with tempfile.TemporaryDirectory(prefix="traceana-") as folder:
        output = str(Path(folder) / f"{Path(source.path).stem}.sqlite")  # a rank may be told by the name
        failure = _export(nsys, str(Path(source.path).absolute()), output, folder, timeout_s)
        if failure:
            report.problem = f"nsys could not export it ({failure}); with the nsys that recorded it, run: {by_hand}"
            return report
        read_back = nsight_sqlite.read(Source(output), file_id, sink, on_text)
    read_back.path, read_back.bytes, read_back.modified = report.path, report.bytes, report.modified
    return read_back


def _beside(path: str) -> str:
    return str(Path(path).with_suffix(".sqlite"))


def _export(nsys: str, report: str, output: str, folder: str, timeout_s: float) -> str | None:
    """Runs the export; the reason when it failed. Versions without --include-blobs get the plain command."""
    command = export_command(report, output, nsys)
    reason = _run(command, folder, timeout_s)
    if reason and "include-blobs" in reason:
        reason = _run([word for word in command if "include-blobs" not in word], folder, timeout_s)
    if reason is None and not Path(output).is_file():
        return "it wrote no file"
    return reason


def _run(command: list[str], folder: str, timeout_s: float) -> str | None:
    try:
        # the folder keeps what nsys writes into its working directory
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"still running after {timeout_s:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).decode("utf-8", "replace").split("\n")
    lines = [" ".join(line.split()) for line in said if line.strip()]
    return (lines[-1][:200] if lines else "") or f"exit code {done.returncode}"
