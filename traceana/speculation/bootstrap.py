"""Standard error of the mean of a series whose neighbours resemble each other: windows of a log, requests of a run.

Moving blocks of the series are drawn with replacement (Künsch 1989; here the series is closed to a circle, Politis and
Romano 1992, so that its ends count as much as its middle). The block length follows from the autocorrelation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

#: fewer parts than this tell nothing of a spread
MIN_PARTS = 2
DRAWS = 1000
_MOST_CELLS = 4_000_000  # drawn values held at once by the median's bootstrap
_SEED = 20
_MIN_CORRELATED = 6  # values before a correlation of neighbours is estimated
_MOST_CORRELATED = 0.95
_STILL = 1e-12  # relative spread below which a series does not move at all


@dataclass(frozen=True, slots=True)
class PartsError:
    """What the parts of one run tell of the noise of its mean (or median): `se` is that of its logarithm.

    `effective` is the number of independent blocks the parts are worth; it stands for n in degrees of freedom.
    """

    se: float
    n: int
    block: int
    effective: float


def block_length(values: Sequence[float]) -> int:
    """Values per block for a block bootstrap of the mean, 1 where neighbours are independent; at most n / 3.

    b = (6 r^2 / (1 - r^2)^2)^(1/3) n^(1/3), best for a series whose neighbours correlate by r (Carlstein 1986, "The use
    of subseries values"). Short series hide their r: it is estimated as (n r + 1) / (n - 4) (Kendall 1954, "Note on
    bias in the estimation of autocorrelation"). On series of 8 to 50 values this covers better than the automatic
    choice of Politis and White 2004 (benchmarks/check_calibration.py).
    """
    import numpy as np

    series = np.asarray(values, float)
    n = len(series)
    centred = series - series.mean()
    squares = float(centred @ centred)
    if n < _MIN_CORRELATED or squares <= n * (_STILL * abs(float(series.mean()))) ** 2:
        return 1
    found = float(centred[1:] @ centred[:-1]) / squares
    r = min(_MOST_CORRELATED, (n * found + 1.0) / (n - 4.0))
    if r <= 0:
        return 1
    best: float = (6.0 * r**2 / (1.0 - r**2) ** 2 * n) ** (1 / 3)
    return max(1, min(round(best), math.ceil(n / 3)))


def parts_error(values: Sequence[float], statistic: str = "mean", draws: int = DRAWS) -> PartsError | None:
    """Standard error of the logarithm of the mean (or `statistic="median"`) of positive values in time order.

    The bootstrap's own bias is taken out: with m independent blocks its error is sqrt((m - 1) / m) of the right one.
    None for fewer than `MIN_PARTS` values or where one is not positive and finite. The draws are the same every time.
    """
    import numpy as np

    series = np.asarray(values, float)
    if len(series) < MIN_PARTS or not (np.isfinite(series) & (series > 0)).all():
        return None
    block = block_length(values)
    effective = len(series) / block
    drawn = _means(series, block, draws) if statistic == "mean" else _medians(series, block, draws)
    se = float(np.log(drawn).std(ddof=1)) * math.sqrt(effective / (effective - 1.0))
    return PartsError(se, len(series), block, effective)


def _starts(n: int, blocks: int, draws: int) -> NDArray[np.int64]:
    import numpy as np

    return np.random.default_rng(_SEED).integers(0, n, (draws, blocks))


def _means(series: Array, block: int, draws: int) -> Array:
    """Means of drawn series, from running sums: no drawn value is ever held."""
    import numpy as np

    n = len(series)
    blocks = math.ceil(n / block)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series[:block]]))])
    starts = _starts(n, blocks, draws)
    last = n - (blocks - 1) * block  # the last block is cut so that n values are drawn
    whole = (sums[starts[:, :-1] + block] - sums[starts[:, :-1]]).sum(axis=1)
    made: Array = (whole + sums[starts[:, -1] + last] - sums[starts[:, -1]]) / n
    return made


def _medians(series: Array, block: int, draws: int) -> Array:
    import numpy as np

    n = len(series)
    starts = _starts(n, math.ceil(n / block), draws)
    at_once = max(1, _MOST_CELLS // n)
    within = np.arange(block)
    made = [
        np.median(series[((part[:, :, None] + within) % n).reshape(len(part), -1)[:, :n]], axis=1)
        for part in np.split(starts, range(at_once, draws, at_once))
    ]
    return np.concatenate(made)
