"""What drafting earns in vLLM's and llama.cpp's lines: counts, rates per position, tokens per cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceana.facts.acceptance import loads, mean_of
from traceana.facts.locate import Locator
from traceana.facts.model import Acceptance, Fact, Provenance, Speculation
from traceana.facts.windows import LOG_INTERVAL_S, interval_s
from traceana.speculation.vllm_lengths import V0Counters, vllm_accept_length, vllm_v0_accept_length, vllm_v0_window

if TYPE_CHECKING:
    import polars as pl

#: first vLLM release whose SpecDecoding line names throughputs (its length counts the bonus token)
_THROUGHPUTS_SINCE = "0.10.2"
#: share of the generated tokens that drafted steps must account for, else the drafter skips steps
_DRAFTED_SHARE = 0.8


def printed_with_bonus(spec: pl.DataFrame, k: int | None, version: str | None) -> tuple[bool | None, str]:
    """Whether vLLM's printed lengths count the bonus token, from the lines themselves, and the words for it."""
    import polars as pl

    rows = spec.filter(pl.col("accept_length_printed").is_not_null() & (pl.col("drafted").fill_null(1) > 0))
    if version is None and rows["accepted_tps"].is_not_null().any():
        version = _THROUGHPUTS_SINCE  # lines with throughputs are printed by this release and later ones only
    told: dict[bool, int] = {True: 0, False: 0}
    words = "no SpecDecoding line with a mean acceptance length"
    for row in rows.head(50).iter_rows(named=True):
        value, said = vllm_accept_length(
            row["accept_length_printed"], row["per_position"], row["accepted"], row["drafted"], k, version
        )
        if value is not None or not any(told.values()):  # a line that was cut tells less than the others
            words = said
        if value is not None:
            told[abs(value - row["accept_length_printed"]) < 0.5] += 1
    if told[True] == told[False]:
        return None, words
    return told[True] > told[False], words


def skips_steps(joined: pl.DataFrame, k: int | None) -> bool:
    """True when drafted steps account for far fewer tokens than were generated: a look-up drafter, whatever its name.

    Each drafted step of a request gives its accepted tokens and one more; with a drafter that always proposes these add
    up to all generated tokens.
    """
    import polars as pl

    both = joined.filter((pl.col("gen_tps") > 0) & (pl.col("drafted") > 0)).sort("file_id", "line")
    seconds = interval_s(both)
    if k is None or both.height < 2 or seconds is None:
        return False
    if "accepted_tps" not in both.columns or not both["accepted_tps"].is_not_null().any():
        seconds = min(seconds, LOG_INTERVAL_S)  # an excerpt of distant lines must not look like skipped steps
    generated = float(both["gen_tps"].sum()) * seconds
    drafted = float(both["accepted"].sum()) + float(both["drafted"].sum()) / k
    return drafted < _DRAFTED_SHARE * generated


def vllm(
    windows: pl.DataFrame,
    spec: pl.DataFrame,
    settings: Speculation,
    with_bonus: bool | None,
    words: str,
    where: Locator,
) -> Acceptance:
    """Acceptance from vLLM's SpecDecoding lines: sums of the counts; per-position rates weighted by drafts."""
    import polars as pl

    v0 = spec.filter(pl.col("form") == "vllm_v0")
    if v0.height:
        return _vllm_v0(v0, where)
    rows = spec.filter(pl.col("drafted") > 0)
    cut = spec.filter(pl.col("drafted").is_null() & pl.col("accept_length_printed").is_not_null())
    if not rows.height and cut.height and with_bonus is not None:
        value = (mean_of(cut, "accept_length_printed") or 0.0) + (0.0 if with_bonus else 1.0)
        return Acceptance(
            accept_length=Fact(value, Provenance.MEASURED, where.spans(cut)),
            accept_rate=Fact(reason="the line is cut off before its counts"),
            tokens_per_cycle=Fact(reason="the line is cut off before its counts"),
            printed_accept_length=mean_of(cut, "accept_length_printed"),
            definition=words,
            n_samples=cut.height,
            evidence=where.spans(cut),
        )
    if not rows.height:
        return Acceptance(
            accept_length=Fact(reason="no SpecDecoding line: the run does not speculate, or did not draft")
        )
    k = settings.k.value or positions(rows)
    every_step = settings.drafts_every_step is not False
    printed = pl.col("accept_length_printed")
    length = printed if with_bonus else printed + 1.0 if with_bonus is False else pl.lit(None, pl.Float64)
    drafts: pl.Expr = pl.when(length > 1.0).then(pl.col("accepted") / (length - 1.0))
    if k and every_step:
        drafts = pl.col("drafted") / k
    sums = rows.with_columns(drafts.alias("drafts")).filter(pl.col("drafts") > 0)
    accepted, drafted = int(rows["accepted"].sum()), int(rows["drafted"].sum())
    evidence = where.spans(rows)
    mean: Fact[float] = Fact(reason=words)
    n_drafts = float(sums["drafts"].sum())
    if n_drafts > 0:
        mean = Fact(1.0 + float(sums["accepted"].sum()) / n_drafts, Provenance.DERIVED, evidence)
    earned, coverage = _tokens_per_cycle(windows, every_step, mean, n_drafts, evidence)
    return Acceptance(
        accept_length=mean,
        accept_rate=Fact(accepted / drafted, Provenance.DERIVED, evidence),
        per_position=_per_position(sums, evidence),
        coverage=coverage,
        tokens_per_cycle=earned,
        printed_accept_length=mean_of(rows, "accept_length_printed"),
        printed_accept_rate=mean_of(rows, "accept_rate_printed"),
        definition=words,
        ceiling=None if k is None else k + 1,
        n_samples=rows.height,
        drafted=drafted,
        accepted=accepted,
        exactly_one=rows.filter(length == 1.0).height,
        exactly_ceiling=rows.filter(pl.col("accepted") == pl.col("drafted")).height,
        exactly_one_running=loads(windows.filter(pl.col("accept_length") == 1.0)),
        other_running=loads(windows.filter(pl.col("accept_length") > 1.0)),
        evidence=evidence,
    )


def positions(rows: pl.DataFrame) -> int | None:
    """The number of draft positions most lines list (a line cut off lists fewer); None when no length prevails."""
    lengths = rows["per_position"].drop_nulls().list.len()
    counts = lengths.value_counts(sort=True)
    if not counts.height or counts["count"][0] * 2 <= len(lengths):
        return None
    return int(counts["per_position"][0]) or None


def _per_position(rows: pl.DataFrame, evidence: tuple[Any, ...]) -> Fact[tuple[float, ...]]:
    import polars as pl

    count = positions(rows)
    if count is None:
        return Fact(reason="no line lists acceptance per position, or their lengths differ")
    listed = rows.filter(pl.col("per_position").list.len() == count)
    weight = pl.col("drafts")
    values = listed.select(
        ((pl.col("per_position").list.get(i) * weight).sum() / weight.sum()).alias(str(i)) for i in range(count)
    ).row(0)
    if any(v is None for v in values):
        return Fact(reason="a per-position list holds a value that is no number")
    return Fact(tuple(float(v) for v in values), Provenance.DERIVED, evidence)


def _tokens_per_cycle(
    windows: pl.DataFrame, every_step: bool, length: Fact[float], drafts: float, evidence: tuple[Any, ...]
) -> tuple[Fact[float], Fact[float]]:
    """(tokens per cycle, coverage). Look-up drafters: generated / (generated - accepted), over all windows."""
    import polars as pl

    if every_step:
        return length, Fact(1.0, Provenance.ASSUMED, (), "this kind of drafter proposes in every step")
    counted = windows.filter(pl.col("gen_tps").is_not_null())  # a SpecDecoding line alone has no generated tokens
    seconds = interval_s(windows.sort("seq"))
    if seconds is None or not counted.height:
        return Fact(reason="the length of the stats interval is not known"), Fact(reason="the same")
    generated = float(counted["gen_tps"].sum()) * seconds
    accepted = float(counted["accepted"].fill_null(0).sum())
    drafts *= accepted / (float(windows["accepted"].fill_null(0).sum()) or 1.0)  # the share of those lines
    steps = generated - accepted
    if steps <= 0:
        return Fact(reason="accepted tokens exceed the generated ones: windows do not match"), Fact(reason="the same")
    note = "generated / (generated - accepted): every step gives each request one token besides the accepted ones"
    return (
        Fact(generated / steps, Provenance.DERIVED, evidence, note),
        Fact(min(1.0, drafts / steps), Provenance.DERIVED, evidence, "drafts / request steps"),
    )


def _vllm_v0(rows: pl.DataFrame, where: Locator) -> Acceptance:
    """V0 counters run from the server's start: the last line, less the first where both describe one run."""
    evidence = where.spans(rows)
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    k = last["num_spec_tokens"]
    counters = [V0Counters(r["accepted"] or 0, r["drafted"] or 0, r["emitted"] or 0) for r in (first, last)]
    window = (vllm_v0_window(*counters) if rows.height > 1 else None) or counters[1]
    words = "V0 counters since start; its acceptance rate also counts tokens behind a rejected one (overstates)"
    length: Fact[float] = Fact(reason="the line names no number of speculative tokens or no emitted tokens")
    if k and window.emitted > 0 and window.drafted > 0:
        try:
            value = vllm_v0_accept_length(window.emitted, window.drafted, k)
            length = Fact(value, Provenance.DERIVED, evidence)
        except ValueError as error:
            length = Fact(reason=str(error))
    return Acceptance(
        accept_length=length,
        accept_rate=Fact(reason=words),
        tokens_per_cycle=length,
        printed_accept_rate=last["accept_rate_printed"],
        definition=words,
        ceiling=k + 1 if k else None,
        n_samples=rows.height,
        drafted=window.drafted,
        accepted=window.accepted,
        evidence=evidence,
    )


def llamacpp(spec: pl.DataFrame, where: Locator) -> Acceptance:
    """llama.cpp's lines: one per request; rate = accepted / generated drafts; a length only where it is printed."""
    import polars as pl

    rows = spec.filter(pl.col("form") == "llamacpp")
    evidence = where.spans(rows)
    drafted, accepted = int(rows["drafted"].sum()), int(rows["accepted"].sum())
    length = mean_of(rows, "accept_length_printed")
    return Acceptance(
        accept_length=Fact(length, Provenance.MEASURED, evidence)
        if length is not None
        else Fact(reason="this build prints no mean acceptance length"),
        accept_rate=Fact(accepted / drafted, Provenance.DERIVED, evidence)
        if drafted
        else Fact(reason="nothing drafted"),
        per_position=_per_position(rows.with_columns(pl.col("drafted").cast(float).alias("drafts")), evidence),
        tokens_per_cycle=Fact(length, Provenance.MEASURED, evidence) if length is not None else Fact(reason="as above"),
        definition="llama.cpp: accepted / drafted per request; mean acceptance length counts the bonus token",
        n_samples=rows.height,
        drafted=drafted,
        accepted=accepted,
        evidence=evidence,
    )
