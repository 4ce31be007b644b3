"""Tests, intervals and agreement: each a function that returns a small polars frame.

The columns carry the name of what they hold: `p_value`, `diff`, `low` and `high` for the one
interval of a result, `wald_low` and `wald_high` where there are several, `n` for what was used,
`n_lost` for what was not. `note` is null unless the numbers need a word: degenerate input gives
a labelled row, with null where there is no right number. Two-sided unless told
`alternative="greater"` or `"less"`. docs/statistics.md says which test and which library.

- same instances: `mcnemar`, `paired_bootstrap`, `paired_t`, `clustered_mean`
- separate groups: `two_proportions`, `mantel_haenszel`, `proportion_interval`
- equivalence: `tost`, `tost_estimate`
- models as points: `spearman`
- judges: `icc2k`, `mean_spearman`, `cohen_kappa`, `krippendorff_alpha`, `agreement`
- many tests and planning: `adjust`, `paired_power`, `paired_mean_power`
"""

from ragbench.stats.alpha import krippendorff_alpha
from ragbench.stats.clusters import clustered_mean
from ragbench.stats.equivalence import tost, tost_estimate
from ragbench.stats.pairs import mcnemar, paired_bootstrap, paired_t
from ragbench.stats.planning import adjust, paired_mean_power, paired_power
from ragbench.stats.proportions import mantel_haenszel, proportion_interval, two_proportions
from ragbench.stats.ranks import mean_spearman, spearman
from ragbench.stats.raters import agreement, cohen_kappa, icc2k

__all__ = [
    "adjust",
    "agreement",
    "clustered_mean",
    "cohen_kappa",
    "icc2k",
    "krippendorff_alpha",
    "mantel_haenszel",
    "mcnemar",
    "mean_spearman",
    "paired_bootstrap",
    "paired_mean_power",
    "paired_power",
    "paired_t",
    "proportion_interval",
    "spearman",
    "tost",
    "tost_estimate",
    "two_proportions",
]
