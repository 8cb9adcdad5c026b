"""How many prompts, seeds and words a difference takes, for every combination of the values given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from analysis.metrics.registry import require_primary
from analysis.report.figures.dots import draw_dots
from analysis.report.figures.style import Drawn
from analysis.report.format import counted, listed
from analysis.report.result import Result
from analysis.stats.power import GAP_COLUMNS, PRESENCE_COLUMNS, prompts_for_gap, prompts_for_presence
from analysis.stats.word_power import WORD_POWER_COLUMNS, prompts_for_words
from analysis.study import contrasts, indicators
from analysis.tables.registry import read
from analysis.tables.similarities.gap import GapChoices
from analysis.tables.similarities.headline import gap_prompts
from analysis.tables.similarities.stored import StoredSimilarities
from analysis.tables.similarities.word_gap import joined_gaps
from probes.errors import UserError, printable
from probes.runs.run import Run


def run_inputs(run: Run) -> tuple[str, dict[str, Any]]:
    """Return what a run tells of the power of another like it: a line, and options of `triptych power` by name.

    The gap is that of the primary measure and the first contrast, its variance split into that between prompts and that
    between the seeds of a prompt; with one seed the first holds both. Spreads of words are those of the test against
    words. The frequency is the median over the objects seen in images of the contrast's second word.
    """
    config = run.config
    metric = require_primary(config.measure.primary, "measure.primary", opened=config.images is None)
    pair = next(iter(contrasts(config)), None)
    table = joined_gaps(partial(read, run)) if "gap" in run.tables() and pair else None
    rows = (
        [] if table is None else metric.rows_of(table[table["contrast"] == "-".join(pair)]).to_dict("records")
    )
    if not rows or config.unit != "prompt" or rows[0]["n_prompts"] < 2:
        raise UserError(
            f"{run.path}: expected a measured run of two prompts or more with a gap of {metric.symbol}"
            " (measure.primary), found none: measure it, or give the numbers (`triptych power --help`)"
        )
    row, names = rows[0], [member.name for member in indicators(config)]
    choices = GapChoices(indicators=names, reference=config.reference, contrasts=[pair])
    family = StoredSimilarities(run).family(*metric.place)
    single = gap_prompts({metric: family}, choices, {}, each_seed=True).dropna(subset="gap")
    single = single.groupby("triplet")["gap"]
    seeds = round(single.size().mean())
    of_seeds = float(single.var().mean()) if seeds > 1 else 0.0
    of_prompts = max(0.0, float(single.mean().var()) - of_seeds / seeds)
    spread, sides = np.sqrt(of_prompts + of_seeds / seeds), (row["n_words_first"], row["n_words_second"])
    variances = {name: row[f"share_{name}"] * row["word_error"] ** 2 for name in ("words", "references")}
    inputs = {
        "gap": [float(value) for value in (row["delta"], spread / 2, spread)],
        "sd_prompt": float(np.sqrt(of_prompts)),
        "sd_seed": float(np.sqrt(of_seeds)),
        "seeds": [seeds],
        "prompts": int(row["n_prompts"]),
        "words": [int(min(sides))],
        "references": [int(row["n_references"])],
        "sd_word": float(np.sqrt(variances["words"] / sum(1 / n for n in sides))),
        "sd_reference": float(np.sqrt(variances["references"] * row["n_references"])),
    }
    if "cooccurrence" in run.tables():
        objects = read(run, "cooccurrence")
        seen = objects[(objects["group"] == "all") & (objects["indicator"] == pair[1]) & ~objects["human"]]
        seen = seen[seen["images"] > 0]
        if len(seen):
            inputs["frequency"] = float((seen["images"] / seen["n_images"]).median())
    counts = [counted(inputs["prompts"], "prompt"), f"{counted(seeds, 'seed')} each"]
    counts += [
        f"{counted(int(min(sides)), 'word')} a side",
        counted(int(row["n_references"]), "reference word"),
    ]
    return f"of {run.path}, {metric.symbol}, {row['contrast']}: {', '.join(counts)}", inputs


def power(run: Run | None, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Result:
    """Return how many prompts, seeds and words a difference takes; UserError for a wrong or missing number.

    Parameters
    ----------
    run : Run, optional
        Whose spreads, numbers and gaps stand for what is not given (`run_inputs`).
    given : mapping
        The options of `triptych power` by name, None for what is not given.
    defaults : mapping
        What is taken where neither is given.
    """
    line, usual = "", dict(defaults)
    if run is not None:
        line, inputs = run_inputs(run)
        for name in ("words", "references"):
            spread = f"sd_{name.removesuffix('s')}"
            if inputs[name] == [1] < (given[name] or [1]) and given[spread] is None:
                raise UserError(
                    f"--{spread.replace('_', '-')}: expected a number, since {run.path} has one word there and"
                    " does not tell how far synonyms differ, got none: give it"
                )
        usual |= inputs
    options = SimpleNamespace(
        **{name: usual.get(name) if value is None else value for name, value in given.items()}
    )
    for difference in options.difference:
        if not 0 < options.frequency + difference < 1:
            raise UserError(
                f"--difference: expected frequency + difference between 0 and 1, got "
                f"{options.frequency + difference:g}: lower it"
            )
    tables = _tables(options)
    titles = (
        f"A gap, power {options.power:g} at alpha {options.alpha:g} over {options.family} tests:",
        "\nA gap beyond what the choice of words makes (`ceiling`: with endlessly many prompts):",
        "\nPresence of an object, exact paired test:",
    )
    lines = [printable(line)] if line else []
    for title, one in zip(titles, tables.values(), strict=True):
        lines += [title, one.to_string(index=False, float_format="{:.3g}".format)]
    table = pd.concat([one.assign(quantity=name) for name, one in tables.items()], ignore_index=True)
    table = table[["quantity", *table.columns.drop("quantity")]]
    return Result("\n".join(lines), table, partial(_draw, table, options.power))


def _draw(table: pd.DataFrame, power: float) -> Drawn:
    """Prompts by difference, a colour for each number of seeds."""
    labels = []
    for row in table.to_dict("records"):
        words = [counted(int(row[name]), name[:-1]) for name in ("words", "references") if row[name] > 0]
        size = row["difference"] if row["quantity"] == "presence" else row["gap"]
        labels.append(f"{row['quantity'].split()[0]} {size:.3g}" + (f", {listed(words)}" if words else ""))
    seeds = [counted(int(number), "seed") for number in table["seeds"]]
    rows = pd.DataFrame({"label": labels, "value": table["prompts"], "series": seeds})
    title = f"Prompts that find a difference with a power of {power:g}"
    caption = "A gap against 0, a gap against words, and a difference of the presence of an object."
    return draw_dots("power", title, caption, rows, "prompts", log=True, noun="difference")


def _tables(options: SimpleNamespace) -> dict[str, pd.DataFrame]:
    """The tables of power for every combination of the options: of gaps, of gaps against words, of presence."""
    common = {"power": options.power, "alpha": options.alpha / options.family}
    spread = {"sd_prompt": options.sd_prompt, "sd_seed": options.sd_seed}
    of_words = {"sd_word": options.sd_word, "sd_reference": options.sd_reference, "planned": options.prompts}
    simulated = {"noise": options.noise, "simulations": options.simulations, "seed": options.seed}
    gaps = [
        prompts_for_gap(gap, seeds=seeds, **spread, **common)
        for gap, seeds in product(options.gap, options.seeds)
    ]
    words = [
        prompts_for_words(
            gap, seeds=s, words=w, references=r, seed=options.seed, **spread, **of_words, **common
        )
        for gap, s, w, r in product(options.gap, options.seeds, options.words, options.references)
    ]
    presence = [
        prompts_for_presence(options.frequency, difference, seeds=seeds, **simulated, **common)
        for difference, seeds in product(options.difference, options.seeds)
    ]
    return {
        "gap": pd.DataFrame(gaps, columns=list(GAP_COLUMNS)),
        "gap against words": pd.DataFrame(words, columns=list(WORD_POWER_COLUMNS)),
        "presence": pd.DataFrame(presence, columns=list(PRESENCE_COLUMNS)),
    }
