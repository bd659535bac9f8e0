"""The thread that prints: the engine's own threads hand over numbers and never wait for a log or a disk.

It wakes when an interval is full and once a second, looks at the switch file, prints an interval that has grown old and
writes the cycles of the last second to their file.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traceana_instrument.clocks import host_ns
from traceana_instrument.cyclefile import CycleFile
from traceana_instrument.hook import PHASES
from traceana_instrument.interval import Interval, Sample, line, ms
from traceana_instrument.settings import Settings

WAKE_S = 1.0
EXIT_S = 2.0
QUEUED = 8192  # cycles that wait for their file; more are counted as unwritten

LINE = "EAGLE3_PROFILE"
START = "EAGLE3_PROFILE_START"
NOTE = "EAGLE3_PROFILE_NOTE"

#: loggers of the engines; a child logger inherits the engine's handlers, format and level
LOGGERS = {"vllm": "vllm.traceana", "sglang": "sglang.traceana"}


class Emitter:
    """Prints lines, writes cycles, obeys the switch. `turn` is called with False when the switch file vanishes."""

    def __init__(
        self, settings: Settings, interval: Interval, rank: Callable[[], int], turn: Callable[[bool], None]
    ) -> None:
        self._settings = settings
        self._interval = interval
        self._rank = rank
        self._turn = turn
        self._epoch_ns = time.time_ns() - host_ns()
        self._cycles: deque[tuple[Sample, int]] = deque(maxlen=QUEUED)
        self._unwritten = 0
        self._texts: deque[str] = deque(maxlen=64)
        self._file: CycleFile | None = None
        self._told_file = False
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = False
        self.engine = ""
        self.lines_lost = 0
        if settings.directory:
            interval.on_cycle = self._keep
        interval.full = self._wake.set
        interval.limit, interval.seconds = settings.cycles, settings.seconds

    def start(self) -> None:
        """Start the thread; once per process."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="traceana", daemon=True)
            self._thread.start()

    def say(self, text: str) -> None:
        """Print a line soon."""
        self._texts.append(text)
        self._wake.set()

    def flush(self) -> None:
        """Print and write everything there is, from the calling thread; used at exit."""
        self._stop = True
        self._wake.set()
        if not self._lock.acquire(timeout=EXIT_S):
            return  # the thread hangs in a write; an exit must not hang with it
        try:
            self._step(final=True)
            if self._file is not None:
                self._file.close()
        finally:
            self._lock.release()

    def _keep(self, sample: Sample, number: int) -> None:
        if len(self._cycles) == QUEUED:
            self._unwritten += 1
        self._cycles.append((sample, number))

    def _run(self) -> None:
        while not self._stop:
            self._wake.wait(WAKE_S)
            self._wake.clear()
            with self._lock:
                if self._stop:
                    return
                try:
                    self._step(final=False)
                except Exception:  # whatever it is, the next second is another chance, and the server runs on
                    self.lines_lost += 1

    def _step(self, *, final: bool) -> None:
        if self._settings.switch_file:
            self._turn(Path(self._settings.switch_file).exists())
        while self._texts:
            self._print(self._texts.popleft())
        self._write_cycles()
        if final or self._interval.due() or self._interval.is_full():
            sums = self._interval.take()
            if sums is not None:
                values = line(sums, self._rank())
                for name, count in (("lines_lost", self.lines_lost), ("unwritten", self._unwritten)):
                    if count:
                        values[name] = count
                self._print(f"{LINE} {json.dumps(values, separators=(',', ':'))}")

    def _write_cycles(self) -> None:
        if not self._settings.directory:
            return
        if self._file is None:
            self._file = CycleFile(self._settings.directory, self._rank(), self._settings.file_mb, self._settings.files)
        rank, texts = self._rank(), []
        while self._cycles:
            sample, number = self._cycles.popleft()
            texts.append(
                f"{LINE} {json.dumps(cycle_line(sample, number, rank, self._epoch_ns), separators=(',', ':'))}"
            )
        self._file.write(texts)
        if self._file.error and not self._told_file:
            self._told_file = True
            self._print(f"{NOTE} cycles are no longer written to their file: {self._file.error}")

    def _print(self, text: str) -> None:
        try:
            logger = logging.getLogger(LOGGERS.get(self.engine, "traceana"))
            if self._settings.to == "auto" and logger.isEnabledFor(logging.INFO) and logger.hasHandlers():
                logger.info("%s", text)
            else:
                sys.stderr.write(text + "\n")
                sys.stderr.flush()
        except Exception:  # a closed pipe, a broken handler: the line is lost and counted
            self.lines_lost += 1


def cycle_line(sample: Sample, number: int, rank: int, epoch_ns: int) -> dict[str, Any]:
    """One cycle in the form of an interval line, with its number and its start in seconds since the epoch."""
    out: dict[str, Any] = {"v": 1, "rank": rank, "cycle": number, "cycles": 1, "batch": sample.batch}
    out["t"] = round((epoch_ns + sample.at) / 1e9, 6)
    if sample.k is not None:
        out["k"] = sample.k
    between = sample.between or 0
    for index, name in enumerate(PHASES):
        if sample.seen & (1 << index):
            out[name + "_ms"] = max(0.0, ms(sample.parts[index]))
    out["other_ms"] = max(0.0, ms(sample.total + between - sum(sample.parts)))
    out["total_ms"] = ms(sample.total + between)
    if sample.between is not None:
        out["between_ms"] = ms(between)
    out["drafted"] = sample.drafted
    out["clock"] = sample.clock
    if sample.clock != "host":
        out["host_cycle_ms"] = ms(sample.host_total)
    out["overhead_us"] = round(sample.overhead / 1e3, 1)
    return out


def at_exit(flush: Callable[[], None]) -> None:
    """Have `flush` called at the end of this process, of children of multiprocessing too (they skip atexit)."""
    import atexit

    atexit.register(flush)
    util = sys.modules.get("multiprocessing.util")
    finalize = getattr(util, "Finalize", None)
    if finalize is not None:
        with contextlib.suppress(Exception):
            finalize(None, flush, exitpriority=0)
