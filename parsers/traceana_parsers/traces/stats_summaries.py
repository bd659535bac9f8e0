"""Summary reports of `nsys stats` as rows of the table `summaries`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana_parsers.schema import polars_schema
from traceana_parsers.traces.nsight_common import NAME_LIMIT, RANGE_COUNTERS
from traceana_parsers.traces.nsight_csv import Section

if TYPE_CHECKING:
    import polars as pl

#: `NCCL:ncclGroupEnd` and `:verify` (default domain), but `aten::to` as it is. nsys prints domains since 2024: a colon
#: in a name of an older version looks like one
_QUALIFIED = r"(?s)^(?:(?<domain>[A-Za-z0-9_.-]*):)?(?<name>[^:].*)$"
_CALL = r"^(?:cuda|cu[A-Z]|hip)"  # the OS runtime summary has the columns of the CUDA one
_NO_RANGE = "(none)"
_ROWS = 4_096
_MOST = 1 << 53  # ns (104 days) or times: more is damage, and sums of it would not fit
_FIGURES = ("instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "std_ns", "share")
_SUM = ("Total Time", "Avg", "Med", "Min", "Max", "StdDev")


@dataclass(frozen=True, slots=True)
class _Form:
    """Columns of a summary report: name, count, then total, mean, median, least, most and deviation."""

    kind: str
    name: str
    count: str
    figures: tuple[str, ...] = _SUM
    order: int = 0  # of several reports that tell the same, the one with the least is taken


_FORMS: dict[str, tuple[_Form, ...]] = {
    "kernel_sum": (_Form("kernel", "Name", "Instances"),),
    "gpu_sum": (
        _Form("kernel", "Operation", "Instances", order=1),
        _Form("memory", "Operation", "Instances", order=1),
        _Form("api", "Operation", "Instances", order=1),
    ),
    "launch_sum": (_Form("kernel", "Kernel Name", "Count", ("", "KAvg", "KMed", "KMin", "KMax", "KStdDev"), order=2),),
    "memory_sum": (_Form("memory", "Operation", "Count"),),
    "size_sum": (_Form("size", "Operation", "Count", ("Total", "", "", "", "", "")),),
    "api_sum": (_Form("api", "Name", "Num Calls"),),
    "range_sum": (_Form("range", "Range", "Instances"),),
    "range_kernels": (_Form("within", "Kernel Name", "Kern Inst"),),
    "projection_sum": (
        _Form("range_gpu", "Range", "Range Instances", ("Total Proj Time", *(f"Proj {s}" for s in _SUM[1:]))),
    ),
}
_CATEGORIES = {"kernel": "CUDA_KERNEL", "memory": "MEMORY_OPER", "api": "CUDA_API"}


class Summaries:
    """Collects the summary reports of one capture; of several that tell the same, one is kept."""

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[int, str], list[pl.DataFrame]]] = {}

    def add(self, section: Section, file: str) -> int | None:
        """Takes the rows of a summary. Returns how many there were without their figures, None for other reports."""
        import polars as pl

        forms = _FORMS.get(section.report.kind)
        if forms is None:
            return None
        unread = 0
        for form in forms:
            frame = _rows(section, form)
            sane = pl.col("instances").is_between(0, _MOST) & pl.col("total_ns").is_between(0, _MOST)
            good = frame.filter(sane & pl.col("name").is_not_null())
            unread += frame.height - good.height
            self._keep(form.kind, (form.order, file), good.filter(pl.col("instances") > 0))
        return unread

    def _keep(self, kind: str, key: tuple[int, str], rows: pl.DataFrame) -> None:
        """Keeps rows, added up by name where there are many, so that memory does not grow with the file."""
        import polars as pl

        frames = self._found.setdefault(kind, {}).setdefault(key, [])
        frames.append(rows.select("pid", "name", "domain", "within", *_FIGURES, "gpu_ops"))
        if sum(frame.height for frame in frames) > _ROWS:
            frames[:] = [_by_name(pl.concat(frames))]

    def add_projection(self, ranges: pl.DataFrame) -> None:
        """Takes projected ranges: name, domain, pid, start_ns, end_ns, gpu_ops. A summary report goes before them."""
        import polars as pl

        length = pl.col("end_ns") - pl.col("start_ns")
        key = ["pid", "name", "domain"]
        rows = ranges.group_by(key).agg(
            pl.len().cast(pl.Int64).alias("instances"),
            length.sum().alias("total_ns"),
            length.mean().alias("avg_ns"),
            length.median().alias("med_ns"),
            length.min().alias("min_ns"),
            length.max().alias("max_ns"),
            length.std().alias("std_ns"),
            pl.lit(None, pl.Float64).alias("share"),
            pl.col("gpu_ops").sum(),
        )
        self._keep("range_gpu", (1, ""), rows.with_columns(pl.lit(None, pl.String).alias("within")))

    def count(self, kind: str) -> int:
        """How often something of a kind ran, over the whole capture."""
        best = self._best(kind)
        return 0 if best is None else int(best["instances"].sum())

    def frame(self, file_id: int, rank: int | None) -> pl.DataFrame:
        """Rows of the table `summaries`, each kind by total time."""
        import polars as pl

        sizes = self._best("size")
        parts = []
        for kind in ("kernel", "memory", "api", "range", "range_gpu", "within"):
            rows = self._best(kind)
            if rows is None:
                continue
            if kind == "memory" and sizes is not None:
                size = sizes.select("name", pl.col("total_ns").alias("bytes"))
                rows = rows.join(size, on="name", how="left", maintain_order="left")
            shown = "kernel" if kind == "within" else kind
            parts.append(rows.with_columns(pl.lit(shown).alias("kind")))
        schema = polars_schema("summaries")
        constant = {"file_id": file_id, "rank": rank}
        made = [
            part.select(
                (pl.col(c) if c in part.columns else pl.lit(constant.get(c))).cast(dtype, strict=False).alias(c)
                for c, dtype in schema.items()
            )
            for part in parts
        ]
        return pl.concat(made) if made else pl.DataFrame(schema=schema)

    def _best(self, kind: str) -> pl.DataFrame | None:
        """The rows of the report that says most of a kind, one row per name."""
        import polars as pl

        found = {key: pl.concat(frames) for key, frames in self._found.get(kind, {}).items()}
        found = {key: frame for key, frame in found.items() if frame.height}
        if not found:
            return None
        best = min(found, key=lambda key: (key[0], -found[key]["instances"].sum()))
        return _by_name(found[best])


def _rows(section: Section, form: _Form) -> pl.DataFrame:
    """name, domain, within, pid, the figures and gpu_ops of a summary report."""
    import polars as pl

    total, *rest = form.figures
    avg, med, least, most, deviation = (section.number(c) for c in rest)
    count = section.integer(form.count)
    names = section.text(form.name)
    frame = pl.DataFrame(
        {
            "name": names,
            "within": section.text("NVTX Range").fill_null(_NO_RANGE) if form.kind == "within" else None,
            "pid": section.integer("PID"),
            "instances": count,
            "total_ns": section.integer(total) if total else (count * avg).round().cast(pl.Int64, strict=False),
            "avg_ns": avg,
            "med_ns": med,
            "min_ns": least.round().cast(pl.Int64, strict=False),
            "max_ns": most.round().cast(pl.Int64, strict=False),
            "std_ns": deviation,
            "share": section.number("Time") / 100 if form.kind == "kernel" else None,
            "gpu_ops": section.integer("Total GPU Ops"),
        },
        schema_overrides={"within": pl.String, "share": pl.Float64},
    )
    if section.report.kind == "gpu_sum":
        frame = frame.filter(section.text("Category") == _CATEGORIES[form.kind])
    if form.kind == "api":
        frame = frame.filter(pl.col("name").str.contains(_CALL).fill_null(True))
    name, domain = pl.col("name"), pl.lit(None, pl.String)
    if form.kind.startswith("range"):
        name, domain = range_name(name)
    return frame.with_columns(
        name.str.slice(0, NAME_LIMIT).alias("name"),
        domain.alias("domain"),
        pl.col("within").str.strip_prefix(":").str.slice(0, NAME_LIMIT),
    )


def range_name(recorded: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Name and domain of ranges as nsys prints them, without counters at the name's end."""
    cut = recorded.str.replace(RANGE_COUNTERS, "")
    parts = cut.str.extract_groups(_QUALIFIED).struct
    return parts.field("name").fill_null(cut), parts.field("domain").replace("", None)


def _by_name(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of one name added up; nsys 2022 prints a kernel once per launch shape. A median cannot be: it is null."""
    import polars as pl

    n, mean = pl.col("instances"), pl.col("total_ns").sum() / pl.col("instances").sum()
    squares = ((n - 1) * pl.col("std_ns").fill_null(0) ** 2 + n * (pl.col("avg_ns") - mean) ** 2).sum()
    single = pl.len() == 1
    key = ["pid", "name", "domain", "within"]
    made = rows.group_by(key, maintain_order=True).agg(
        n.sum().alias("instances"),
        pl.col("total_ns").sum(),
        pl.when(single).then(pl.col("avg_ns").first()).otherwise(mean).alias("avg_ns"),
        pl.when(single).then(pl.col("med_ns").first()).alias("med_ns"),
        pl.col("min_ns").min(),
        pl.col("max_ns").max(),
        pl.when(single)
        .then(pl.col("std_ns").first())
        .when(n.sum() > 1)
        .then((squares / (n.sum() - 1)).sqrt())
        .alias("std_ns"),
        pl.when(pl.col("share").is_not_null().any()).then(pl.col("share").sum()).alias("share"),
        pl.when(pl.col("gpu_ops").is_not_null().any()).then(pl.col("gpu_ops").sum()).alias("gpu_ops"),
    )
    return made.sort("total_ns", descending=True, maintain_order=True)
