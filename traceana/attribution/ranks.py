"""Collectives matched across ranks: what was transfer, what was waiting, and for whom.

All ranks leave a collective together (seen: within 5 us on eight A100s) and its cost is what the last to arrive sees.
So transfer = min over ranks of the duration, wait = duration - transfer, and neither needs a common clock. The
clocks' offset, the median difference of ends, is needed to order arrivals and to check the matching: where ends of
one instance do not agree, the ordinals do not belong together.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, rows_by_code
from traceana.attribution.intervals import IntArray, is_new
from traceana.attribution.model import LEFT_TOGETHER_NS, LEFT_TOGETHER_SHARE, TIMELINE, RankMatch
from traceana.store.tables import STORED
from traceana_parsers.schema import polars_schema

#: collectives that no rank leaves before all have arrived
SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
#: share of the steps that must agree: of nine that have nothing to do with each other half may by chance
_STEPS_ALIKE = 0.75
#: ordinals that a rank may have missed at either end of its capture, beyond the difference in number
_SLACK = 16
_MAX_SHIFT = 256
#: instances that a shift is judged by, and the fewest that may overlap under it
_SAMPLE = 512
_MIN_OVERLAP = 8
#: shifts whose unevenness is within this of the best are alike
_ALIKE_RATIO = 1.5
_ALIKE_NS = 1_000

#: columns of collectives of one kind
_OF_KIND = [*TIMELINE, "stream", "start_ns", "end_ns", "name_id", "bytes", "group_size"]
MEMBERS = polars_schema("matched_collectives", STORED)
OFFSETS = polars_schema("clock_offsets", STORED)


def match_ranks(collectives: pl.DataFrame, *, wall_clock: bool = True) -> RankMatch:
    """Match synchronising collectives by (group, collective, ordinal) over all ranks seen.

    Args:
        collectives: the table; a rank is a timeline (file, process, device), so ranks in one file work, too.
        wall_clock: the traces share an axis (`traces.clock` is utc). Decides between alignments that fit alike (a loop
            that never varies): the one that moves the clocks least, else the one that skips the fewest instances.

    Returns:
        See model.RankMatch. Instances that one rank only has are left out. `provenance` is measured where the whole
        group was seen, else derived: the transfer is then an upper bound, because the last to arrive may not have
        been traced.
    """
    named = pl.col("group_name").fill_null("").alias("group")
    kinds = collectives.select(named, "collective").unique().filter(pl.col("collective").is_in(SYNCHRONISING))
    members: list[pl.DataFrame] = []
    offsets: list[pl.DataFrame] = []
    notes: list[str] = []
    for group, collective in kinds.sort(pl.all()).iter_rows():
        of_kind = ((named == group) & (pl.col("collective") == collective)).fill_null(False)
        rows = np.flatnonzero(collectives.select(of_kind.alias("of"))["of"].to_numpy())
        by_start = rows[np.argsort(column(collectives, "start_ns")[rows], kind="stable")]
        found = _match(collectives.select(_OF_KIND)[by_start], wall_clock)
        if found is None:
            continue
        of = pl.lit(group).alias("group"), pl.lit(collective).alias("collective")
        members.append(_shaped(found[0].with_columns(of), MEMBERS))
        offsets.append(_shaped(found[1].with_columns(of), OFFSETS))
        label = f"{collective}{f' of group {group}' if group else ''}"
        notes += [f"{label}: {found[2]}"] if found[2] else []
    none = pl.DataFrame(schema=MEMBERS), pl.DataFrame(schema=OFFSETS)
    return RankMatch(pl.concat(members or none[:1]), pl.concat(offsets or none[1:]), tuple(notes))


def _shaped(rows: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    return rows.select(pl.col(name).cast(kind) for name, kind in schema.items())


def _match(part: pl.DataFrame, wall_clock: bool) -> tuple[pl.DataFrame, pl.DataFrame, str] | None:
    """Members and offsets of one collective of one group, and a note where something is wrong; None with one rank.

    `part` is in order of start. Members come by ordinal, then by rank.
    """
    (code,), count = dense_codes([part], TIMELINE)
    if count < 2:
        return None
    ends = column(part, "end_ns")
    rows = rows_by_code(code, count)
    order = _reference_first(part, rows)
    reference = ends[rows[order[0]]]
    ordinal = np.zeros(part.height, np.int64)
    figures = np.zeros((count, 5), np.int64)
    ambiguous = 0
    for rank in order:
        own = ends[rows[rank]]
        shift, rivals = (0, 0) if rank == order[0] else align(reference, own, wall_clock)
        ordinal[rows[rank]] = np.arange(len(own)) + shift
        figures[rank] = (*_offset(reference, own, shift), shift)
        ambiguous += rivals > 0 and not (wall_clock and abs(int(figures[rank, 0])) <= LEFT_TOGETHER_NS)
    trusted = figures[:, 3] == 1
    first = part[[int(rows[rank][0]) for rank in order]].select(TIMELINE)
    names = ("offset_ns", "spread_ns", "instances", "trusted", "shift")
    offsets = first.with_columns(pl.Series(name, figures[order, at]) for at, name in enumerate(names))
    bad = count - int(trusted.sum())
    notes = [f"{bad} of {count} ranks left out, their ends do not agree with the others'"] if bad else []
    if ambiguous:
        chosen = "the smallest clock offset" if wall_clock else "the smallest shift"
        notes.append(f"{ambiguous} ranks fit the reference under several shifts alike; {chosen} was taken")
    note = "; ".join(notes)
    size = part.get_column("group_size").max()
    expected = int(size) if isinstance(size, int) else count
    if expected < count:
        note = f"{count} ranks were traced and the group has {expected}: several groups share the name"
        trusted[:] = False
        offsets = offsets.with_columns(trusted=pl.lit(False))
    kept = np.flatnonzero(trusted[code])
    kept = kept[np.lexsort((np.argsort(order)[code[kept]], ordinal[kept]))]
    return _split(part, kept, ordinal[kept], figures[code[kept], 0], expected), offsets, note


def _reference_first(part: pl.DataFrame, rows: list[IntArray]) -> list[int]:
    """Timelines by rank, the lowest first: its clock is the reference."""
    rank = part.get_column("rank").fill_null(1 << 30).to_numpy()
    return sorted(range(len(rows)), key=lambda code: (int(rank[rows[code][0]]), code))


def align(reference: IntArray, own: IntArray, wall_clock: bool = True) -> tuple[int, int]:
    """Ordinal of the reference's instance that a rank's first one belongs to (captures do not begin together).

    Also the number of other ordinals that fit alike.

    Ends are ascending. The shift is the one under which ends differ most evenly; of those that fit alike the one that
    moves the clock least (`wall_clock`), else the smallest. Tried around zero and around what the clocks say.
    """
    slack = abs(len(reference) - len(own)) + _SLACK
    by_clock = int(np.searchsorted(reference, own[0])) - int(np.searchsorted(own, reference[0]))
    around = {base + step for base, step in product((0, by_clock), range(-slack, slack + 1)) if abs(step) <= _MAX_SHIFT}
    enough = max(_MIN_OVERLAP, min(len(reference), len(own)) // 2)
    shifts = sorted({0} | {shift for shift in around if _overlap(reference, own, shift) >= enough}, key=abs)
    judged = [(*_evenness(_differences(reference, own, shift)), shift) for shift in shifts]
    limit = _ALIKE_RATIO * min(uneven for uneven, _, _ in judged) + _ALIKE_NS
    alike = [
        (abs(offset) if wall_clock else 0, abs(shift), shift) for uneven, offset, shift in judged if uneven <= limit
    ]
    return min(alike)[2], len(alike) - 1


def _overlap(reference: IntArray, own: IntArray, shift: int) -> int:
    return min(len(reference), len(own) + shift) - max(0, shift)


def _differences(reference: IntArray, own: IntArray, shift: int) -> IntArray:
    """Own end minus the reference's, for the instances that both have."""
    low, high = max(0, shift), min(len(reference), len(own) + shift)
    return own[low - shift : high - shift] - reference[low:high]


def _evenness(found: IntArray) -> tuple[float, int]:
    """How unevenly two clocks' ends differ (median absolute deviation around a line: clocks drift), and the median."""
    if not len(found):
        return float("inf"), 0
    middle = max(0, (len(found) - _SAMPLE) // 2)
    offset = _middle(found)
    rest = found[middle : middle + _SAMPLE] - offset
    third = len(rest) // 3
    if third >= 3:
        slope = (_middle(rest[-third:]) - _middle(rest[:third])) / (len(rest) - third)
        line = slope * (np.arange(len(rest)) - (len(rest) - 1) / 2)
        return float(np.median(np.abs(rest - line - np.median(rest - line)))), offset
    return float(np.median(np.abs(rest))), offset


def _middle(values: IntArray) -> int:
    """The lower median: an integer, exact for times beyond 2^53."""
    return int(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])


def _offset(reference: IntArray, own: IntArray, shift: int) -> tuple[int, int, int, int]:
    """Offset, spread, instances, and whether the ends agree well enough to be the same instances (1 or 0).

    Both the ends and the steps from one to the next must agree: the ends of a rank that has nothing to do with the
    others may lie near theirs by chance, where few are compared, but its steps do not.
    """
    found = _differences(reference, own, shift)
    if not len(found):
        return 0, 0, 0, 0
    uneven, offset = _evenness(found)
    spacing = float(np.median(np.diff(reference))) if len(reference) > 1 else 0.0
    spread = _middle(np.abs(found - offset))
    steps = float(np.quantile(np.abs(np.diff(found)), _STEPS_ALIKE)) if len(found) > 1 else 0.0
    limit = max(LEFT_TOGETHER_NS, LEFT_TOGETHER_SHARE * spacing)
    return offset, spread, len(found), int(uneven <= limit and steps <= 2 * limit)


def _split(part: pl.DataFrame, rows: IntArray, ordinal: IntArray, offset: IntArray, expected: int) -> pl.DataFrame:
    """Some rows, sorted by `ordinal`, with the rest of MEMBERS; without those of instances that one rank only has.

    Late: the shortest, the later arrival among equals.
    """
    instance = np.cumsum(is_new(ordinal)) - 1
    seen = np.bincount(instance, minlength=1)[instance]
    several = np.flatnonzero(seen > 1)
    part, ordinal, instance = part[rows[several]], ordinal[several], instance[several]
    complete = seen[several] >= expected
    duration = column(part, "end_ns") - column(part, "start_ns")
    arrival = column(part, "start_ns") - offset[several]
    by_length = np.lexsort((-arrival, duration, instance))  # of each instance the late rank comes first
    late = np.zeros(part.height, np.bool_)
    late[by_length[is_new(instance)]] = True
    transfer = duration[late][np.cumsum(is_new(instance)) - 1] if part.height else duration
    provenance = pl.when(pl.col("complete")).then(pl.lit("measured")).otherwise(pl.lit("derived"))
    return part.with_columns(
        ordinal=ordinal,
        arrival_ns=arrival,
        transfer_ns=transfer,
        wait_ns=duration - transfer,
        late=late,
        complete=complete,
    ).with_columns(provenance.alias("provenance"))


def splits(members: pl.DataFrame) -> pl.DataFrame:
    """What the ledger needs of matched (or one rank's) collectives: the transfer of each allreduce kernel."""
    return members.filter(pl.col("collective") == "all_reduce").select(*TIMELINE, "stream", "start_ns", "transfer_ns")
