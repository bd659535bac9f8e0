"""Algorithm EAGLE is set while the draft model is an EAGLE-3 head: every draft is rejected.

What it sees:
    The algorithm is EAGLE, the draft model's name contains eagle3, and the printed accept length is exactly 1.00 in
    all, or nearly all, stats lines; or it is at most 1.04 on average, as where a few drafts are right by chance.

Why it matters:
    EAGLE mode hands the draft one hidden state where EAGLE-3 was trained on three. The shapes happen to fit, the
    projection is skipped, and the drafts are noise. The output stays right, no warning is printed, and each cycle pays
    for drafting and a wide verify to emit one token: slower than no speculation.

How sure and why:
    High with settings and draft in the log and every line at exactly 1.00, or nearly every one of 20 lines and more.
    Medium with a single line, or where lines read 1.01 and more: a head that is dead for another reason does the same.

Rivals:
    ACC002: the head is dead for another reason (weights missing, wrong checkpoint).

Confirm:
    One start with --speculative-algorithm EAGLE3: the accept length leaves 1.00 at once.

Fix:
    --speculative-algorithm EAGLE3

References:
    sglang PR #21272.
"""

from __future__ import annotations

from traceana.facts.model import Facts, Setting
from traceana.rules._drafts import NEARLY_ALL as SHARE_OF_ALL
from traceana.rules._drafts import all_rejected, eagle3_under_eagle, nearly_all_rejected, off_on_purpose, stats_lines
from traceana.rules._levels import gate, loss
from traceana.rules._text import count, length, picked
from traceana.rules.acc002_dead_draft_head import DEAD_LENGTH
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Finding,
    NotApplicable,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

NEARLY_ALL = Threshold(
    "nearly_all",
    SHARE_OF_ALL,
    "share of lines",
    "lines at exactly 1.00",
    "a prefill in the window can lift a line",
    False,
)
MANY_LINES = Threshold("many_lines", 20, "lines", "enough for confidence high", "sglang PR #21272", True)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when accept length is exactly 1.00 and the settings pair EAGLE with an EAGLE-3 draft."""
    if facts.identity.engine.value not in (None, "sglang"):
        return NotApplicable("the algorithm flag and the draft's kind are set apart in SGLang only")
    stopped = _no_lines(facts) or gate(facts) or _rejection(facts)
    if stopped is not None:
        return stopped
    if eagle3_under_eagle(facts):
        return _finding(facts, baseline)
    if facts.speculation.method.known and facts.speculation.draft_model.known:
        return Clear("accept length is exactly 1.00, but the settings do not pair EAGLE with an EAGLE-3 draft")
    return CannotTell(
        "accept length is exactly 1.00, but the log does not say which algorithm and draft model are set",
        "keep the server_args= line of the start-up in the log",
    )


def _no_lines(facts: Facts) -> CannotTell | None:
    if facts.acceptance.n_samples or not eagle3_under_eagle(facts):
        return None
    return CannotTell(
        "algorithm EAGLE is set with a draft named EAGLE-3, but no stats line shows an accept length",
        "let it decode with --decode-log-interval 10 until a few `accept len` lines are in the log",
    )


def _rejection(facts: Facts) -> Clear | CannotTell | None:
    """None when drafts are rejected throughout without a known reason; else what the lines say."""
    acceptance = facts.acceptance
    if acceptance.n_samples == 0:
        return Clear("the settings do not pair EAGLE with an EAGLE-3 draft")
    lines, mean = stats_lines(facts), acceptance.accept_length.value
    by_chance = eagle3_under_eagle(facts) and mean is not None
    if (not by_chance and not nearly_all_rejected(facts)) or (mean is not None and mean > DEAD_LENGTH.value):
        return Clear(f"accept length is exactly 1.00 in {acceptance.exactly_one} of {count(lines, 'line')}")
    meant = off_on_purpose(facts)
    return None if meant is None else Clear(meant)


def _finding(facts: Facts, baseline: Facts | None) -> Finding:
    acceptance = facts.acceptance
    ones, n = acceptance.exactly_one, stats_lines(facts)
    sure = nearly_all_rejected(facts) and (ones >= MANY_LINES.value or (all_rejected(facts) and n > 1))
    mean = acceptance.accept_length.value
    seen = f"exactly 1.00 in {ones} of {count(n, 'stats line')}"
    if not nearly_all_rejected(facts) and mean is not None:
        seen = f"{length(mean)} over {count(n, 'stats line')}"
    rows: tuple[Setting | None, ...] = (
        facts.settings.get("speculative_algorithm"),
        facts.settings.get("speculative_draft_model_path"),
    )
    return Finding(
        code=RULE.code,
        title=f"Accept length is {seen}: algorithm EAGLE is set with an EAGLE-3 draft",
        severity=Severity.CRITICAL,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        why="EAGLE mode does not give the draft the three hidden states it was trained on: no draft is accepted but by "
        "chance, and each cycle emits the bonus token alone. Drafting and the wide verify are paid for nothing.",
        fix=("--speculative-algorithm EAGLE3",),
        evidence=picked(
            facts.speculation.method.evidence,
            facts.speculation.draft_model.evidence,
            acceptance.evidence,
            (row.evidence for row in rows if row is not None),
        ),
        confirm="one start with --speculative-algorithm EAGLE3 and a look at the first `accept len` lines",
        rivals=("ACC002",),
        explains_ms_per_token=loss(facts, baseline),
    )


RULE = Rule(
    code="ACC001",
    name="eagle-flag-with-eagle3-draft",
    severity=Severity.CRITICAL,
    check=check,
    thresholds=(NEARLY_ALL, MANY_LINES),
    engines=("sglang",),
    asks="whether an EAGLE-3 draft runs under the EAGLE method",
)
