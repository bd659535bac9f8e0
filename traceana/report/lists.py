"""The lists of the page: findings, start-up stages, streams, what was not checked, input files."""

from __future__ import annotations

from collections import Counter

from traceana.report.diagnosis import Diagnosis, ExplainsReport, FindingReport, InputReport, NotChecked
from traceana.report.page import Item, Labelled, Row, Section, Table
from traceana.report.text import FAMILIES, NONE, count, figure, letter, place, places, span, two, whole

#: rows of a list that are drawn before the rest is only counted
MAX_STREAMS = 16
MAX_STAGES = 24
MAX_INPUTS = 12
#: files of one kind and folder, without trouble, from which they are one row
SAME_INPUTS = 3
MAX_PATHS = 8
MAX_NOT_CHECKED = 5

_STREAM_COLUMNS = {
    "n_windows": "windows",
    "gen_tps": "tok/s",
    "accept_length": "accept length",
    "tokens_per_cycle": "tokens/cycle",
    "cycle_ms": "cycle ms",
}
_ONE_DECIMAL = ("gen_tps", "cycle_ms")
_TWO_DECIMALS = ("accept_length", "tokens_per_cycle", "accept_rate", "speedup", "break_even_accept_length")


def findings(diagnosis: Diagnosis) -> Section:
    """The findings, or that there are none, and what was looked at."""
    looked = _looked(diagnosis.clear)
    if not diagnosis.findings:
        return Section("Findings", lead=(f"No findings. {looked or 'No rule could look: see Not checked.'}",))
    items = tuple(_item(n, finding) for n, finding in enumerate(diagnosis.findings, 1))
    texts = (Labelled("", (looked,)),) if looked else ()
    return Section("Findings", aside="severity · confidence", items=items, texts=texts)


def _looked(clear: tuple[str, ...]) -> str:
    if not clear:
        return ""
    families = Counter(FAMILIES.get(code[:3], code[:3]) for code in clear)
    named = " · ".join(f"{family} {n}" for family, n in families.items())
    return f"{count(len(clear), 'rule')} looked and found nothing: {named}"


def _item(number: int, finding: FindingReport) -> Item:
    rows: list[tuple[str, tuple[str, ...]]] = []
    rows.append(("explains", _explains(finding)))
    rows.append(("seen in", (places(finding.evidence),) if finding.evidence else ()))
    rows.append(("why", (finding.why,) if finding.why else ()))
    rows.append(("also fits", (" · ".join(finding.rivals),) if finding.rivals else ()))
    rows.append(("settle", (finding.confirm,) if finding.confirm else ()))
    rows.append(("fix", finding.fix))
    return Item(
        number,
        finding.code,
        finding.name,
        finding.title,
        finding.severity,
        finding.confidence,
        tuple(Labelled(label, texts) for label, texts in rows if texts),
        finding.evidence,
    )


def _explains(finding: FindingReport) -> tuple[str, ...]:
    """How much it explains: per token where that is known, with the ms per cycle behind it."""
    known = ((finding.explains_ms_per_token, "token"), (finding.explains_ms_per_cycle, "cycle"))
    amounts = [(_amount(part, per), part.basis) for part, per in known if part is not None]
    if not amounts:
        return ()
    basis = amounts[-1][1]
    text = ", ".join(amount for amount, _ in amounts)
    return (f"{text}: {basis}" if basis else text,)


def _amount(part: ExplainsReport, per: str) -> str:
    how = letter(part.provenance) or part.provenance
    wide = part.low < 0.1 * part.high
    size = f"up to {figure(part.high)}" if wide else span(figure(part.low), figure(part.high))
    return f"{size} ms per {per} ({how})"


def startup(diagnosis: Diagnosis) -> Section | None:
    """Shown when it is the story: no load table, or a crash or hang."""
    unstable = any(f.code.startswith("STB") and f.severity == "critical" for f in diagnosis.findings)
    if not diagnosis.startup or (diagnosis.levels and not unstable):
        return None
    stages = diagnosis.startup[:MAX_STAGES]
    rows = tuple(Row(s.name, (figure(s.seconds), NONE if s.rank is None else str(s.rank))) for s in stages)
    hidden = len(diagnosis.startup) - len(stages)
    aside = f"{len(stages)} of {len(diagnosis.startup)} stages shown" if hidden else ""
    return Section("Start-up", aside=aside, tables=(Table("stage", ("seconds", "rank"), rows),))


#: how the ways of doing collectives are called in the report
_PATHS = {
    "custom_allreduce": "custom allreduce",
    "flashinfer_fusion": "FlashInfer allreduce fusion",
    "pcie_ipc": "PCIe-IPC allreduce",
    "symm_mem": "symmetric memory",
    "p2p": "P2P",
    "nccl_algo": "NCCL_ALGO",
}


def communication(diagnosis: Diagnosis) -> Section | None:
    """Which allreduce path the ranks say is on or refused, and what NCCL set up; None without such lines."""
    texts = []
    for path in diagnosis.collectives:
        if path.kind in _PATHS and path.state != "info":
            who = f"{count(len(path.ranks), 'rank')}" if path.ranks else count(path.count, "line")
            reason = path.reason.rstrip(". ")
            said = f"{_PATHS[path.kind]} {path.state}: {reason} ({who}; {place(path.evidence)})"
            texts.append(Labelled("", (said,)))
    texts += _nccl(diagnosis)
    return Section("Communication", texts=tuple(texts[:MAX_PATHS])) if texts else None


def _nccl(diagnosis: Diagnosis) -> list[Labelled]:
    """NCCL's transports and the variables that reached the processes, those of all ranks together."""
    if not diagnosis.nccl:
        return []
    total: Counter[str] = Counter()
    reached: dict[tuple[str, str], int] = {}
    for process in diagnosis.nccl:
        total.update(process.transports)
        for pair in process.env.items():
            reached[pair] = reached.get(pair, 0) + 1
    every = len(diagnosis.nccl)
    out = []
    if total:
        links = ", ".join(f"{n} via {kind}" for kind, n in total.most_common())
        out.append(Labelled("", (f"NCCL links: {links}",)))
    if reached:
        named = [
            f"{name}={value}" + ("" if n == every else f" ({n} of {every})") for (name, value), n in reached.items()
        ]
        out.append(Labelled(f"NCCL variables in {every} processes", (", ".join(named),)))
    return out


def streams(diagnosis: Diagnosis) -> Section | None:
    """The streams of stats lines (DP ranks, engines), when there is more than one."""
    every = diagnosis.streams
    if len(every) < 2:
        return None
    keys = [key for key in dict.fromkeys(key for row in every for key in row) if key != "name"]
    shown = _extreme(every) if len(every) > MAX_STREAMS else every
    rows = tuple(Row(str(row.get("name") or NONE), tuple(_any(key, row.get(key)) for key in keys)) for row in shown)
    table = Table("stream", tuple(_STREAM_COLUMNS.get(key, key.replace("_", " ")) for key in keys), rows)
    few = f"{len(shown)} of {len(every)} shown: the slowest and the fastest" if len(shown) < len(every) else ""
    return Section("Streams", aside=few, tables=(table,))


_Stream = dict[str, str | int | float | None]


def _extreme(streams: tuple[_Stream, ...]) -> tuple[_Stream, ...]:
    """Half of the room for the slowest streams, half for the fastest, in input order."""

    def speed(i: int) -> float:
        value = streams[i].get("gen_tps")
        return value if isinstance(value, int | float) else 0.0

    order = sorted(range(len(streams)), key=speed)
    half = MAX_STREAMS // 2
    return tuple(streams[i] for i in sorted(order[:half] + order[-half:]))


def _any(key: str, value: str | int | float | None) -> str:
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    if key in _TWO_DECIMALS:
        return two(value)
    return whole(value) if float(value).is_integer() and key not in _ONE_DECIMAL else figure(value)


def not_checked(rows: tuple[NotChecked, ...]) -> Section | None:
    """Questions with the same capture stand together: one command answers them all."""
    if not rows:
        return None
    by_capture: dict[str, list[str]] = {}
    for row in rows:
        by_capture.setdefault(row.capture, []).append(f"{row.what} ({row.reason})" if row.reason else row.what)
    shown = list(by_capture.items())[:MAX_NOT_CHECKED]
    texts = [
        Labelled("", (" · ".join(questions), *([f"capture: {capture}"] if capture else [])))
        for capture, questions in shown
    ]
    if hidden := len(by_capture) - len(shown):
        texts.append(Labelled("", (f"and {count(hidden, 'more question')}: --format json lists all",)))
    return Section("Not checked", texts=tuple(texts))


def inputs(diagnosis: Diagnosis) -> Section | None:
    """The input files, those with a problem or unread lines first."""
    rows = [("", row) for row in diagnosis.inputs]
    if diagnosis.baseline is not None:
        rows += [("baseline ", row) for row in diagnosis.baseline.inputs]
    if not rows:
        return None
    rows.sort(key=lambda pair: not _troubled(pair[1]))  # stable: those with a problem first
    texts: list[Labelled] = []
    left = 0
    for role, alike in _alike(rows):
        if len(texts) >= MAX_INPUTS:
            left += len(alike)
        elif len(alike) < SAME_INPUTS:
            texts += [Labelled("", (f"{role}{_input(row)}", *_trouble(row))) for row in alike]
        else:
            texts.append(Labelled("", (f"{role}{_group(alike)}",)))
    if left := left + max(len(texts) - MAX_INPUTS, 0):
        texts = [*texts[:MAX_INPUTS], Labelled("", (count(left, "more file"),))]
    return Section("Inputs", texts=tuple(texts))


def _alike(rows: list[tuple[str, InputReport]]) -> list[tuple[str, list[InputReport]]]:
    """Files of one folder and format without trouble together, in the order of the first of them."""
    groups: dict[tuple[str, str, str], list[InputReport]] = {}
    for number, (role, row) in enumerate(rows):
        folder, found, _ = row.path.rpartition("/")
        own = f"{number}" if _troubled(row) or row.lines else f"{folder}{found}"
        groups.setdefault((role, own, row.format), []).append(row)
    return [(role, group) for (role, _, _), group in groups.items()]


def _group(rows: list[InputReport]) -> str:
    folder = rows[0].path.rpartition("/")[0]
    read = sum(row.recognised for row in rows)
    return f"{folder + '/' if folder else ''}: {count(len(rows), 'file')}, {rows[0].format}, {read:,} read, 0 unread"


def _troubled(row: InputReport) -> bool:
    return bool(row.problem or row.unread or row.partial or row.format == "unknown")


def _input(row: InputReport) -> str:
    lines = f"{count(row.lines, 'line')}, {row.recognised:,} recognised" if row.lines else f"{row.recognised:,} read"
    pieces = [f"{row.path}: {row.format}, {lines}"]
    if row.partial:
        pieces.append(f"{row.partial:,} read in part")
    pieces.append(f"{row.unread:,} unread")
    return ", ".join(pieces)


def _trouble(row: InputReport) -> tuple[str, ...]:
    out = [row.problem] if row.problem else []
    if row.unread and (example := row.unread_example) is not None:
        where = place(example) if example.line is None else f"line {example.line}"
        out.append(f"unread, e.g. {where}: {example.text or ''}".rstrip(": "))
    return tuple(out)
