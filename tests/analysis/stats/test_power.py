"""Numbers of prompts, seeds and items, against SciPy, statsmodels and simulation."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.stats.power import (
    NO_GAP,
    TOO_MANY,
    binomial_power,
    detectable_share,
    gap_power,
    items_for_share,
    presence_power,
    prompts_for_gap,
    prompts_for_presence,
    smallest_number,
)
from analysis.stats.word_power import CEILING, ONE_WORD
from analysis.studies import power
from analysis.studies.power import run_inputs
from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.melted import melted
from tests.analysis.synthetic_run import configure, write_run
from triptych.cli.main import command

main = command("power")


@pytest.mark.parametrize(("d_z", "n"), [(0.2, 50), (1.5, 6), (0.8, 200)])
def test_gap_power_is_that_of_statsmodels(d_z, n):
    from statsmodels.stats.power import TTestPower

    assert gap_power(d_z, n) == pytest.approx(TTestPower().power(d_z, n, 0.05), abs=1e-6)
    assert gap_power(-d_z, n) == gap_power(d_z, n)


def test_prompts_for_a_gap_are_the_least_and_seeds_help_until_prompts_alone_vary():
    from statsmodels.stats.power import TTestPower

    found = [prompts_for_gap(0.4, sd_prompt=1.0, sd_seed=1.5, seeds=s) for s in (1, 2, 4, 1000)]
    for row in found:
        assert gap_power(row["d_z"], row["prompts"]) >= 0.8 > gap_power(row["d_z"], row["prompts"] - 1)
        known = TTestPower().solve_power(row["d_z"], power=0.8, alpha=0.05)
        assert row["prompts"] == np.ceil(known)
    prompts = [row["prompts"] for row in found]
    assert prompts == sorted(prompts, reverse=True)
    assert prompts[-1] == prompts_for_gap(0.4, sd_prompt=1.0)["prompts"]
    assert found[1]["images"] == 3 * 2 * found[1]["prompts"]


def test_no_gap_and_too_small_a_gap_have_a_reason():
    none = prompts_for_gap(0.0, sd_prompt=1.0)
    assert none["reason"] == NO_GAP and np.isnan(none["prompts"])
    tiny = prompts_for_gap(1e-9, sd_prompt=1.0)
    assert tiny["reason"] == TOO_MANY and np.isnan(tiny["prompts"])
    assert np.isnan(gap_power(0.5, 1))
    assert prompts_for_presence(0.2, 0.0)["reason"] == NO_GAP


def test_simulated_presence_power_is_that_of_mcnemar_in_closed_form():
    """Independent images, one seed: discordant prompts are binomial, then McNemar's exact test."""
    n, p, q = 60, 0.2, 0.45
    only, other = q * (1 - p), p * (1 - q)
    power = 0.0
    for m in range(n + 1):
        b = np.arange(m + 1)
        p_value = np.minimum(1, 2 * stats.binom.cdf(np.minimum(b, m - b), m, 0.5))
        chosen = stats.binom.pmf(b, m, only / (only + other))[p_value <= 0.05].sum()
        power += stats.binom.pmf(m, n, only + other) * chosen
    found = presence_power(p, q - p, n, 1, prompt=0, interaction=0, noise=0, simulations=4000)
    assert found == pytest.approx(power, abs=5 * np.sqrt(power * (1 - power) / 4000))


def test_prompts_for_presence_reach_the_power():
    row = prompts_for_presence(0.2, 0.2, seeds=2, simulations=500)
    assert row["power"] >= 0.8 and row["images"] == 6 * row["prompts"]
    more = prompts_for_presence(0.2, 0.1, seeds=2, simulations=500)
    assert more["prompts"] > 2 * row["prompts"]
    with pytest.raises(ValueError, match="between 0 and 1"):
        prompts_for_presence(0.9, 0.2)


def test_command_line_prints_and_writes(tmp_path, capsys):
    out = tmp_path / "power.csv"
    options = ["--gap", "0.5", "0", "--difference", "0.3", "--seeds", "1", "2", "--simulations", "200"]
    words = ["--words", "1", "2", "--references", "1", "--sd-word", "0.2"]
    assert main([*options, *words, "--sd-seed", "0", "--out", str(out)]) == 0
    table = pd.read_csv(out)
    assert table["quantity"].tolist() == ["gap"] * 4 + ["gap against words"] * 8 + ["presence"] * 2
    assert table["reason"].tolist()[4:6] == [ONE_WORD, CEILING] and 0.25 < table["ceiling"][5] < 0.4
    assert table["prompts"].tolist()[:2] == [34, 34] and table["reason"].tolist()[2:4] == [NO_GAP] * 2
    text = capsys.readouterr().out
    assert "exact paired test" in text and " 34 " in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--power", "80"], "--power: expected a number between 0 and 1, got '80'"),
        (["--difference", "0.9"], "--difference: expected frequency + difference"),
        (["--words", "0"], "--words: expected a whole number from 1 to 100, got '0'"),
        (["--noise", "0.9"], "--noise: expected a number from 0 to 0.6"),
    ],
)
def test_bad_options_are_one_line(options, text, capsys):
    assert main(options) == 2
    error = capsys.readouterr().err
    assert text in error and error.count("\n") == 1


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    run = Run.open(write_run(tmp_path_factory.mktemp("power") / "run", prompts=7, seeds=3, steps=1))
    measure(configure(run, measure={"bootstrap": 50, "permutations": 50, "primary": "ssim"}))
    return Run.open(run.path)


def test_a_run_tells_its_spreads_and_numbers(measured, capsys):
    """The parts of variance by analysis of variance with random prompts, by hand from the similarities."""
    line, found = run_inputs(measured)
    wide = melted(measured).query("metric == 'ssim' and site == 'image'").astype({"pair": str})
    wide = wide.pivot_table("value", ["triplet", "seed"], "pair", observed=True)
    gap = (wide["neutral-masculine"] - wide["neutral-feminine"]).unstack()
    of_seeds = gap.var(axis=1).mean()
    of_prompts = max(0.0, gap.mean(axis=1).var() - of_seeds / 3)
    assert (found["sd_seed"], found["sd_prompt"]) == pytest.approx((of_seeds**0.5, of_prompts**0.5))
    assert (found["prompts"], found["seeds"], found["words"]) == (7, [3], [1])
    assert found["gap"][2] == pytest.approx((of_prompts + of_seeds / 3) ** 0.5)
    assert main([str(measured.path), "--gap", "0.5", "--simulations", "50"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(line) and f" {0.5:g}" in text.splitlines()[3] and ONE_WORD in text
    assert main([str(measured.path), "--words", "3"]) == 2
    assert "--sd-word: expected a number, since" in capsys.readouterr().err


def test_spreads_of_words_are_those_of_the_test_against_words(measured, monkeypatch):
    """With 3 and 2 words a side and 4 of the reference: half of the error's variance, and a quarter of it."""
    more = {"n_words_first": 3, "n_words_second": 2, "n_references": 4, "word_error": 0.2}
    table = measured.table("gap").assign(**more, share_words=0.5, share_references=0.25)
    monkeypatch.setattr(power, "read", lambda run, name: table if name == "gap" else run.table(name))
    found = run_inputs(measured)[1]
    assert found["sd_word"] == pytest.approx((0.5 * 0.04 / (1 / 3 + 1 / 2)) ** 0.5)
    assert found["sd_reference"] == pytest.approx((0.25 * 0.04 * 4) ** 0.5)
    assert (found["words"], found["references"]) == ([2], [4])


def test_a_coarser_search_errs_by_its_precision_and_never_below():
    for needed in np.random.default_rng(0).integers(2, 100_000, 50):
        number = smallest_number(lambda n: float(n >= needed), 0.5, precision=0.01)  # noqa: B023
        assert needed <= number <= max(needed + 1, 1.0201 * needed)


def test_the_power_of_the_binomial_test_is_that_of_scipys():
    for n, reference, share, alpha in ((10, 0.5, 0.9, 0.05), (17, 0.3, 0.6, 0.01), (9, 0.93, 0.4, 0.05)):
        p = np.array([stats.binomtest(x, n, reference).pvalue for x in range(n + 1)])
        expected = stats.binom.pmf(np.flatnonzero(p <= alpha), n, share).sum()
        assert binomial_power(share, n, reference, alpha) == pytest.approx(expected, abs=1e-12)


def test_what_is_detectable_has_the_power_and_a_little_less_has_not():
    apart = detectable_share(20, 0.4, alpha=0.01)
    assert binomial_power(0.4 + apart, 20, 0.4, 0.01) >= 0.8
    assert binomial_power(0.4 + apart - 0.001, 20, 0.4, 0.01) < 0.8
    n = int(items_for_share(0.4 + apart, 0.4, alpha=0.01))
    assert n <= 20 and binomial_power(0.4 + apart, n, 0.4, 0.01) >= 0.8
