"""Table ``prompts``: the text of every prompt and its levels, such as profession, setting, template and model."""

from __future__ import annotations

import pandas as pd

from probes.config.schema import Config

COLUMNS = ("triplet", "prompt_id", "prompt")
_OWN = (*COLUMNS, "unit")


def prompt_table(config: Config) -> pd.DataFrame | None:
    """Return a row for each prompt, a column for each level; None where no prompt has levels.

    A level that is called as another column has ``level_`` before it; ``prompt`` is the reference's text.
    """
    prompts = config.prompts[: config.limit]
    names = list(dict.fromkeys(name for prompt in prompts for name in prompt.levels))
    if not names:
        return None
    word = config.indicators[config.reference].word
    rows = [
        (
            number,
            prompt.name(number),
            prompt.text(config.reference, word),
            *(prompt.levels.get(name, "") for name in names),
        )
        for number, prompt in enumerate(prompts)
    ]
    plain = [f"level_{name}" if name in _OWN else name for name in names]
    return pd.DataFrame(rows, columns=[*COLUMNS, *plain])
