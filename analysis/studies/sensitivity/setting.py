"""One setting of one choice, and the findings under it."""

from typing import NamedTuple

import pandas as pd


class Setting(NamedTuple):
    """Findings under a setting of a choice, everything else as in the run.

    Attributes
    ----------
    choice : str
        What is moved, such as ``theta``.
    name : str
        To where, such as ``0.3``.
    of_run : bool
        Whether the run itself is set so.
    findings : DataFrame
        One row per finding: ``kind``, ``what``, ``quantity``, ``value``, ``ci_low``, ``ci_high``, ``p_value``,
        ``n_prompts``, ``reason``; of gaps ``p_control`` as well.
    """

    choice: str
    name: str
    of_run: bool
    findings: pd.DataFrame
