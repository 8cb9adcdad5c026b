"""The report's findings: one primary measure, the others adjusted."""

import re

import numpy as np
import pandas as pd
import pytest

from analysis.metrics.registry import headline_metrics
from analysis.report.findings import COLUMNS, findings_table, summaries
from analysis.report.format import listed, p_value
from analysis.report.wording_prompts import article_warning, shared_sentence
from analysis.stats.multiplicity import adjust_p_values, gatekept
from analysis.tables.similarities.gap import GapChoices, gap_rows
from analysis.tables.similarities.headline import left_out
from analysis.tables.similarities.similarities import from_table
from analysis.tables.similarities.word_gap import SideWords, joined_gaps, word_rows
from analysis.tables.stage import measure
from hooks.prompt.spans import split_words
from probes.runs.run import Run
from tests.analysis.melted import melted
from tests.analysis.synthetic_run import NINE, write_run

CONTRAST = ("masculine", "feminine")
MEASURES = [metric for metric in headline_metrics() if metric.needs != "features"]


def made(path, **options) -> Run:
    run = Run.open(write_run(path, steps=2, seeds=1, indicators=NINE, **options))
    measure(run)
    return run


@pytest.fixture(scope="module")
def leaning(tmp_path_factory) -> Run:
    return made(tmp_path_factory.mktemp("runs") / "leaning", prompts=10, lean=0.3)


def test_gatekept_by_hand():
    assert gatekept([0.04, 0.001, 0.02, 0.03], 0) == pytest.approx([0.04, 0.04, 0.04, 0.04])
    assert gatekept([0.01, 0.001, 0.02, 0.03], 0) == pytest.approx([0.01, 0.01, 0.04, 0.04])  # Holm of three
    p = [0.01, np.nan, 0.02]
    np.testing.assert_allclose(gatekept(p, 1), adjust_p_values(p, method="holm"))  # no primary p: Holm of all
    np.testing.assert_allclose(gatekept(p, None), adjust_p_values(p, method="holm"))


def test_the_primary_measure_stands_first_and_views_of_one_image_are_not_findings_each(leaning):
    (found,) = summaries(joined_gaps(leaning.table), leaning.config)
    others = [metric.key for metric in MEASURES if metric.key != "z0"]
    assert [one.metric.key for one in found.findings] == ["z0", *others]
    assert others[:3] == ["t", "ssim", "diff_pix"]
    top = found.findings[0]
    assert top.primary and top.direction == 1 and top.verdict.licence == "claim"
    assert top.claim == (
        "Final latents generated from neutral prompts (person, human, figure) are nearer to those of masculine (man, "
        "gentleman, male) than of feminine (woman, lady, female) prompts, by more than synonyms differ."
    )
    assert found.answer == top.answer == re.sub(r" \(.*?\)", "", top.claim)
    views = listed(metric.symbol for metric in MEASURES if metric.space != "prompt")
    assert f"{views} are views of the same images, not separate findings" in found.others
    assert views.startswith("z₀, SSIM") and f" of {len(MEASURES)}" not in found.others
    row = leaning.table("word_gap").query("site == 'latent.final'").iloc[0]
    assert top.p_measures == row["p_control"]


def test_the_findings_stand_in_a_table(leaning):
    table = findings_table(summaries(joined_gaps(leaning.table), leaning.config))
    assert tuple(table.columns) == COLUMNS
    expected = gatekept(table["p_control"], 0)
    np.testing.assert_allclose(table["p_measures"], expected, rtol=1e-12)
    assert table["primary"].tolist() == [True] + [False] * (len(MEASURES) - 1)


def test_two_contrasts_are_one_family_named_where_the_p_is_shown(leaning):
    config, gaps = leaning.config, joined_gaps(leaning.table)
    both = config.model_copy(update={"contrasts": [CONTRAST, CONTRAST[::-1]]})
    gaps = pd.concat([gaps, gaps.assign(contrast="feminine-masculine")])
    (alone,), pair = summaries(gaps, config), summaries(gaps, both)
    for summary in pair:
        for one, two in zip(alone.findings, summary.findings, strict=True):
            assert two.p_measures == pytest.approx(min(2 * one.p_measures, 1))
    assert "against words, adjusted over the measures and contrasts" in repr(pair[0].findings[0])
    shown = [p_value(one.p_measures) for one in pair[0].findings]
    assert shown != [p_value(one.row["p_control"]) for one in pair[0].findings]
    for text, one in zip(shown, pair[0].findings, strict=True):
        assert f", {text} against words, adjusted" in repr(one)
    assert repr(alone.findings[0]).splitlines()[1].endswith("against words, adjusted over the measures")


def test_every_number_of_a_finding_says_what_it_is_in(leaning):
    (found,) = summaries(joined_gaps(leaning.table), leaning.config)
    for one in found.findings:
        *numbers, _ = one.lines()
        assert len(numbers) == 2 and all(f": gap in {one.metric.scale} " in line for line in numbers)


# Specifications


def test_every_word_is_left_out_once_and_two_are_always_left():
    nine = SideWords(["m", "g", "l"], ["w", "d", "f"], ["p", "h", "i"])
    assert [name for name, _ in left_out(nine)] == ["m", "g", "l", "w", "d", "f", "p", "h", "i"]
    assert all(min(map(len, (w.first, w.second, w.reference))) == 2 for _, w in left_out(nine))
    assert not list(left_out(SideWords(["m", "g"], ["w", "d"], ["p"])))


def test_a_specification_is_a_run_without_that_word(leaning):
    """Leaving a word out is what a run would have said that never had it."""
    pairs, table = melted(leaning), leaning.table("specifications")
    kept = {name: entry for name, entry in NINE.items() if name != "lady"}
    controls = {
        name: "neutral" if entry["control"] is True else entry["control"]
        for name, entry in kept.items()
        if entry["control"]
    }
    choices = GapChoices(indicators=list(NINE), reference="neutral", contrasts=[CONTRAST], controls=controls)
    rows = pd.concat([word_rows(family, CONTRAST, choices) for family in from_table(pairs)])
    own = table[table["specification"] == "without “lady”"].set_index(["site", "metric"])
    for place in (("latent.final", "cosine"), ("image", "ssim"), ("text.final", "cosine_sequence")):
        row = rows.set_index(["site", "metric"]).loc[[place]].iloc[0]
        assert own.loc[place, "gap"] == pytest.approx(row["word_gap"], rel=1e-12)
        assert own.loc[place, "p_control"] == pytest.approx(row["p_control"], rel=1e-9)


# The smallest effect


def test_delta_is_a_share_of_the_distance_between_the_sides(leaning):
    pairs = melted(leaning).query("step == -1").astype({"pair": str, "value": float})
    rows = leaning.table("equivalence").query("step == -1").set_index("metric")
    for metric, distance in (("ssim", lambda s: 1 - s), ("diff_pix", lambda s: s)):
        own = pairs[(pairs["metric"] == metric) & (pairs["pair"] == "feminine-masculine")]
        mean = own.groupby("triplet")["value"].mean().mean()
        assert rows.loc[metric, "delta"] == pytest.approx(0.1 * distance(mean), rel=1e-6)
        assert rows.loc[metric, "delta_source"] == "measure.smallest_effect"


def test_a_gap_far_below_the_distance_is_shown_to_be_small_and_a_stated_delta_goes_first():
    rng = np.random.default_rng(0)
    rows = []
    for t in range(30):
        for pair, value in (("n-m", 0.7), ("n-f", 0.699), ("f-m", 0.5)):
            rows.append(
                {"pair": pair, "triplet": t, "seed": 0, "value": value + 0.002 * rng.standard_normal()}
            )
    pairs = pd.DataFrame(rows).assign(space="image", site="image", metric="ssim", step=-1)
    (family,) = from_table(pairs)

    def equivalence(**options):
        choices = GapChoices(indicators=["n", "f", "m"], reference="n", contrasts=[("m", "f")], **options)
        return gap_rows(family, ("m", "f"), choices)[1].iloc[0]

    row = equivalence()
    assert row["delta"] == pytest.approx(0.05, abs=1e-3) and row["p_value"] < 0.05
    stated = equivalence(deltas={"ssim": 1e-5})
    assert (stated["delta"], stated["delta_source"]) == (1e-5, "measure.equivalence")
    assert stated["p_value"] > 0.05
    assert np.isnan(equivalence(smallest_effect=None)["delta"])


# Prompts


def samples(words, template="a {person} in a hat", prompts=None):
    rows = [
        {"triplet": 0, "indicator": word, "word": word, "template": template, "prompt": prompt}
        for word, prompt in zip(words, prompts or [template.replace("{person}", word) for word in words])
    ]
    spoken = [[word for word, _ in split_words(row["prompt"])] for row in rows]
    return pd.DataFrame(rows).assign(words=spoken)


def test_an_article_of_its_own_is_named():
    people = samples(
        ["person", "man", "individual"], prompts=["a person", "a man", "an individual"], template="a {person}"
    )
    warning = article_warning(people)
    assert warning.startswith(
        "“individual” takes “an” where “person” and “man” take “a”: an article is a word too"
    )
    assert "and its article differ." in shared_sentence(people)
    assert article_warning(samples(["person", "man", "figure"])) == ""
    assert shared_sentence(samples(["person", "man"])).endswith("only the word for the person differs.")
    assert "share the noise" not in shared_sentence(samples(["person", "man"]), paired=False)
    assert shared_sentence(people, paired=False).startswith("Every image has its own noise")
    old = ["an old person", "an old individual"]
    assert article_warning(samples(["person", "individual"], "an old {person}", old)) == ""
