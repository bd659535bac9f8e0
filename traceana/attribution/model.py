"""What attribution hands on: names of phases and buckets, thresholds, and results as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

#: phases of a cycle; `forward` is one graph replay per period of which nobody can tell verify from plain decode,
#: `other` is what no phase claims (the scheduler between phases, kernels launched outside of them)
PHASES = ("draft", "verify", "re_extend", "forward", "other")

#: buckets of the ledger that add up to the window, in the order in which they claim a nanosecond
COMPUTE = "compute"
UNKNOWN = "unknown"
BUCKETS = (
    COMPUTE,
    "allreduce_transfer",
    "allreduce_unsplit",  # allreduce whose transfer cannot be told from its wait
    "other_comm_exposed",
    "allreduce_wait",
    "copies",
    UNKNOWN,  # a graph replay that was traced without its kernels: never idle
    "launch_gap",
    "other_idle",
)
#: figures reported beside the buckets; each is already inside another bucket
BESIDE = (
    "allreduce_overlapped",  # allreduce under work that claims first, mostly compute
    "other_comm_overlapped",  # other communication under work that claims first
    "idle_without_launch",  # part of other_idle whose next operation has no launch record: its cause is not known
)
#: what names one process: ranks of one merged file may share a process id
PROCESS = ("file_id", "rank", "pid")
#: what names one timeline: a device as one process of one file sees it; timelines are never merged
TIMELINE = (*PROCESS, "device")

#: graph replays are cycles only when this share of them repeats the one a period before (a choice, not calibrated)
PERIOD_MATCH = 0.9
#: and only when they make up this share of the process' GPU work meanwhile: decoding is replays, other work is not
REPLAY_SHARE = 0.5
#: a gap between cycles up to this many times the median gap is part of the loop; a longer one is a pause or a prefill
REGULAR_GAP_RATIO = 3.0
#: and so is any gap below this share of the median cycle
REGULAR_GAP_SHARE = 0.1

#: wait share of all collective time from which a set is skew-dominated, and below which transfer-dominated
SKEW_SHARE = 0.6
TRANSFER_SHARE = 0.25
#: fewer matched instances than this are inconclusive (each is measured: it takes few to see one that is odd)
MIN_MATCHED = 3
#: fewer instances of one size than this give no low quantile with one rank
MIN_ONE_RANK = 20
#: quantile of one size's durations on one rank that stands for its transfer
ONE_RANK_QUANTILE = 0.1
#: ends of one instance that differ by less than this left together whatever the spacing (seen: 5 us, eight A100 ranks)
LEFT_TOGETHER_NS = 10_000
#: and otherwise by less than this share of the time between consecutive ends (seen: 0.001 on CPU ranks; 30 collectives
#: of ranks that have nothing to do with each other but keep the same rhythm can be laid over each other to 0.11)
LEFT_TOGETHER_SHARE = 0.05
#: an operation that ended within this time before a collective ran up to it
BACK_TO_BACK_NS = 2_000
#: summaries: average over median, and maximum over median, above which a row counts waiting (rule catalogue R22)
SUMMARY_AVG_RATIO = 3.0
SUMMARY_MAX_RATIO = 10.0
#: instances from which the median is that of the others when one stands out
MIN_SUMMED = 3

#: fewer cycles than this in a capture give no spread
MIN_CYCLES = 20


class LedgerError(ValueError):
    """Buckets that do not add up: an error of ours, never of the input. The message holds the offending row."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of one file; see PROCESS."""

    file_id: int
    rank: int | None
    pid: int | None

    def only(self) -> dict[str, int | None]:
        """What its rows have in common, by column."""
        return {"file_id": self.file_id, "rank": self.rank, "pid": self.pid}


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where each nanosecond of each cycle went.

    `rows`: file_id, rank, pid, device, cycle, phase, window_ns, one column of ns per name in BUCKETS (they add up to
    window_ns) and per name in BESIDE (they do not). `windows`: file_id, rank, pid, device, cycle, window_ns of each
    cycle. `devices`: the same columns as `rows` without cycle and phase, and start_ns, over the whole capture: from the
    first recorded operation of a timeline to the end of the last.
    """

    rows: pl.DataFrame
    windows: pl.DataFrame
    devices: pl.DataFrame

    def self_check(self) -> None:
        """Raise LedgerError with the offending row unless all parts add up exactly and none is negative."""
        import polars as pl

        total = pl.sum_horizontal(*BUCKETS)
        negative = pl.any_horizontal(*(pl.col(name) < 0 for name in (*BUCKETS, *BESIDE)))
        for rows in (self.rows, self.devices):
            wrong = rows.filter((total != pl.col("window_ns")) | negative)
            if wrong.height:
                raise LedgerError(f"buckets do not add up to the window: {wrong.row(0, named=True)}")
        keys = [*TIMELINE, "cycle"]
        parts = self.rows.group_by(keys).agg(pl.col("window_ns").sum().alias("parts_ns"))
        both = self.windows.join(parts, on=keys, how="full", coalesce=True, nulls_equal=True).fill_null(0)
        wrong = both.filter(pl.col("parts_ns") != pl.col("window_ns"))
        if wrong.height:
            raise LedgerError(f"phases do not add up to the cycle: {wrong.row(0, named=True)}")

    def per_phase(self) -> pl.DataFrame:
        """Sums per rank, device and phase, with the number of cycles they are sums of (`cycles`)."""
        import polars as pl

        keys = [*TIMELINE, "phase"]
        sums = [pl.col(name).sum() for name in ("window_ns", *BUCKETS, *BESIDE)]
        return self.rows.group_by(keys).agg(pl.col("cycle").n_unique().alias("cycles"), *sums).sort(keys)


@dataclass(frozen=True, slots=True)
class RankMatch:
    """Collectives matched across ranks.

    `members`: one row per rank and instance: group, collective, ordinal, file_id, rank, pid, device, stream, start_ns,
    end_ns, name_id, bytes, arrival_ns (start on the reference's clock), transfer_ns, wait_ns, late,
    complete (all ranks of the group were seen), provenance.
    `offsets`: one row per group and rank: offset_ns (this clock minus the reference's), spread_ns (median absolute
    deviation), instances, trusted.
    """

    members: pl.DataFrame
    offsets: pl.DataFrame
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkewVerdict:
    """Whether a set of collectives spends its time moving bytes or waiting for the last rank.

    `kind`: transfer-dominated, skew-dominated, mixed or inconclusive (then `reason` says why). Times are sums over
    ranks and instances, None where nothing can be said.
    """

    kind: str
    instances: int
    ranks: int
    provenance: str
    transfer_ns: int | None = None
    wait_ns: int | None = None
    reason: str = ""

    @property
    def wait_share(self) -> float | None:
        """Wait over all collective time."""
        return (
            None
            if self.transfer_ns is None or self.wait_ns is None
            else self.wait_ns / (self.transfer_ns + self.wait_ns)
        )


@dataclass(frozen=True, slots=True)
class TraceCounts:
    """What one process of one file holds, for the judgement of its capture."""

    file_id: int
    rank: int | None
    pid: int | None
    kernels: int = 0
    memops: int = 0
    graph_rows: int = 0
    launches: int = 0
    graph_launches: int = 0
    hidden_graph_launches: int = 0  # graph launches of which no kernel and no graph row was recorded
    kernels_without_launch: int = 0
    cycles: int = 0


@dataclass(frozen=True, slots=True)
class CaptureNote:
    """One thing wrong with a capture: what, what it hides, and the exact command that captures it right.

    `severity`: critical (no answer), warning (some answers missing or biased), info.
    """

    severity: str
    code: str
    what: str
    consequence: str
    command: str
    traces: tuple[int, ...] = field(default=())  # file_id of the traces concerned
