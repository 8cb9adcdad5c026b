"""The report's section on professions: what it says, what it shows, and what it does where little was read."""

import re

import numpy as np
import pytest

from analysis.methods.dalleval import latex, results, section
from analysis.methods.dalleval.stage import measure_professions
from analysis.report.environment import environment
from tests.analysis.dalleval_parts import truths, write_answers, write_audit, write_tones
from tests.analysis.synthetic_run import configure

FIGURES = {
    *("dalleval-gender", "dalleval-tones", "dalleval-attribute-tones", "dalleval-mad", "dalleval-attributes")
}


def page(run):
    """The figures of a run and the text of its section, without marks."""
    professions = section.read_professions(run)
    figures = section.draw(professions, run.config)
    said = section.section(professions, run.config)
    template = environment().get_template("analysis.methods.dalleval/section.html.j2")
    text = template.render(shown=said, figures=figures, level=run.config.measure.level, unit="prompt")
    return figures, said, re.sub(r"\s+", " ", re.sub(r"<svg.*?</svg>|<[^>]*>", " ", text, flags=re.S))


@pytest.fixture(scope="module")
def shown(audit):
    return page(audit)


def test_the_first_reader_speaks_and_all_are_named(shown, audit):
    _, said, text = shown
    mad = audit.table("dalleval_mad")
    row = mad[(mad["source"] == "toyworld-checker") & (mad["question"] == "gender")].iloc[0]
    share = f"{50 * (row['average'] + 1):.0f} % of the images generated from neutral prompts of 6 professions"
    assert said["sentences"][0].startswith(f"{share} were read as female by the toyworld checker")
    assert f"{row['mad']:.3f} on average" in said["sentences"][0]
    assert said["sentences"][1].startswith(
        "The average tone of the images generated from every word’s prompts"
    )
    answer = section.lead(section.read_professions(audit), audit.config).answer
    more = "more" if row["p_page"] < 0.05 and row["excess"] > 0 else "not more"
    assert answer.startswith(
        f"By a share of {row['mad']:.3f} on average, {more} than the {row['floor']:.3f} "
    )
    assert len(answer.split()) <= 30 and "as the toyworld checker reads 6 professions" in answer
    assert "Read by: the toyworld checker and toyworld’s VQA model." in text
    assert "what was planted, which is no claim about how anybody looks" in text


def test_figures_are_drawn_and_say_who_read(shown):
    figures, *_ = shown
    assert set(figures) == FIGURES
    assert "read by the toyworld checker" in figures["dalleval-gender"].caption
    assert "by the typology angle" in figures["dalleval-tones"].caption
    assert "read by the toyworld checker" in figures["dalleval-attribute-tones"].caption


def test_every_number_of_the_tables_stands_on_the_page(shown, audit):
    *_, said, text = shown
    assert len(said["each"]) == 7 and "no profession" in text
    assert {row["source"] for row in said["mads"]} == {
        *("toyworld-checker", "toyworld-vqa", "ita", "ciede2000", "dalleval2023"),
    }
    assert sum(row["planned"] for row in said["counts"] if row["question"] == "gender") == 2 * 84
    assert len(said["words"]) == 3 * 5 and len(said["absolute"]) == 2 * 3 * 2
    assert len(said["agreement"]) == 4 + 3


def test_the_latex_of_a_run(audit):
    made = dict(latex.documents(audit))
    numbers = [6, 7, 8, 9, 16, 17, 20, 21, 22, 23, 24, 25]
    assert [int(name[14:16]) for name in made] == sorted(
        numbers, key=[int(name[14:16]) for name in made].index
    )
    assert sorted(int(name[14:16]) for name in made) == numbers
    assert "With 4 images a prompt, chance alone gives a MAD of 0.188." in made["dalleval_table16_gender"]
    assert "nurse" in made["dalleval_table16_gender"] + made["dalleval_table17_gender"]
    assert "neutral prompts, by the toyworld checker" in made["dalleval_table23_attributes"]


def test_the_first_screen_shows_images_of_three_professions_with_their_averages(audit):
    lead = section.lead(section.read_professions(audit), audit.config)
    table = audit.table("dalleval_professions")
    own = table.query("source == 'toyworld-checker' and question == 'gender' and indicator == 'neutral'")
    values = [one.value for one in lead.examples]
    assert len(values) == 3 and values[0] == own["average"].min() and values[2] == own["average"].max()
    seen, samples = truths(audit), audit.samples(["sample_id", "prompt", "indicator", "seed"])
    samples = samples[samples["indicator"] == "neutral"].sort_values("seed").set_index("prompt")
    for one in lead.examples:
        row = own[own["profession"].isin([one.title, "(none)" if one.title == "no profession" else ""])].iloc[
            0
        ]
        assert one.value == row["average"] and f"[{row['low']:.2f}".replace("-", "−") in one.text
        assert len(one.pictures) == 3
        ids = samples.loc[[one.prompt], "sample_id"].to_list()
        truth = ["female" if seen[sample][0] else "male" for sample in ids[:3]]
        assert [picture.reading for picture in one.pictures] == truth


def test_cards_say_how_far_professions_are_from_half_with_floor_test_and_agreement(audit):
    own = audit.table("dalleval_mad").query("source == 'toyworld-checker' and question == 'gender'")
    found = results.results(audit)
    assert len(found) == len(own) == 3
    for one, row in zip(found, own.to_dict("records")):
        shown = (row["debiased"], row["images_low"], row["images_high"])  # as the score of GEP is
        assert (one.value, one.low, one.high) == shown and one.most == 0.5 and "debiased" in one.name
        assert one.floor.startswith(f"{row['mad']:.3f} as published, without the correction")
        family = "adjusted over this section’s tests" if row["p_page"] == row["p_page"] else "unadjusted"
        assert one.floor.endswith(f", {family})")
        assert f"chance alone gives {row['floor']:.3f} (p" in one.floor
        assert "toyworld’s VQA model says the same of" in one.error


def test_ten_likely_tones_are_no_finding_and_professions_are_held_against_each_other(shown, audit):
    _, said, text = shown
    gender, tone, attributes = said["sentences"]
    distribution = audit.table("dalleval_distribution")
    own = distribution[(distribution["source"] == "ita") & (distribution["images"] > 0)]
    assert own["category"].nunique() < 10
    assert f"ten equally likely tones, of which the images show {own['category'].nunique()} is" in tone
    assert "the paper’s reference, and no finding about professions" in tone and "from ten equally" in tone
    assert "differ from ten" not in text and "differs from ten" not in text
    between = audit.table("dalleval_between").set_index(["source", "question", "indicator"])
    row = between.loc[("toyworld-checker", "gender", "neutral")]
    differ = "differ from one another" if row["p_page"] < 0.05 else "cannot be told to differ"
    assert f"Professions {differ}" in gender and f"{100 * row['explained']:.0f} % of the variance" in gender
    assert attributes.startswith("Of 3 attributes by the toyworld checker, ")
    assert attributes.endswith(
        "can be told to differ between professions (adjusted over attributes, words and this section’s tests)."
    )
    in_mads = next(row for row in said["mads"] if row["source"] == "ita" and row["indicator"] == "(all)")
    tested = between.loc[("ita", "tone", "(all)")]
    assert in_mads["different"] == (tested["different"] if tested["p_page"] < 0.05 else 0)
    assert np.isnan(in_mads["p_page"])  # none is shown: ten likely tones are no hypothesis
    assert all(row["p_value"] == row["p_value"] for row in said["mads"] if row["question"] == "gender")


@pytest.mark.parametrize("read", ["tone", "attributes", "nothing decided"])
def test_a_run_of_which_little_was_read_has_its_section(tmp_path, read):
    run = write_audit(
        tmp_path / "run", whole=False, seeds=2, readers=(), tones=False, professions=("nurse", "cook")
    )
    configure(run, measure={"bootstrap": 20, "permutations": 20})
    seen = truths(run)
    if read == "tone":
        write_tones(run, lambda sample: seen[sample][2])
    else:
        answers = {
            "attributes": lambda sample: {
                name: "yes" if worn else "no" for name, worn in seen[sample][1].items()
            },
            "nothing decided": lambda sample: {"gender": None},
        }
        write_answers(run, "blip2", answers[read])
    measure_professions(run)
    figures, said, text = page(run)
    expected = {
        "tone": {"dalleval-tones", "dalleval-mad"},
        "attributes": {"dalleval-mad", "dalleval-attributes"},
        "nothing decided": {"dalleval-gender"},
    }
    assert set(figures) == expected[read]
    assert len(said["each"]) == 3
    if read == "nothing decided":
        assert said["sentences"] == [
            "Nothing can be said of the gender of images generated from neutral prompts of 0 professions (no images)."
        ]
        assert "2 undecided (gender)" in text
    list(latex.documents(run))


def test_a_share_of_few_decided_images_says_so_and_how_far_the_others_could_move_it():
    row = {"question": "gender", "source": "blip2", "indicator": "neutral", "professions": 1, "reason": ""}
    row |= {"average": 1.0, "decided": 3, "asked": 13, "average_least": -7 / 13, "average_most": 1.0}
    row |= {
        "mad": 0.5,
        "floor": 0.2,
        "excess": 0.3,
        "p_value": 0.2,
        "p_page": 0.2,
        "tested": 1,
        "different": 0,
    }
    said = section._sentence(row, "gender", 0)
    assert said.startswith(
        "100 % of the 3 that were decided of 13 images generated from neutral prompts of 1 profession were read as "
        "female"
    )
    assert "whatever the others show, of all it is between 23 % and 100 %" in said
    assert "whatever" not in section._sentence(row | {"decided": 13}, "gender", 0)
    tones = section._sentence(row | {"average": 5.0, "average_least": 2.0, "average_most": 9.0}, "tone", 3)
    assert "between 2.000 and 9.000" in tones or "between 2.00 and 9.00" in tones


def test_the_bounds_are_those_of_all_answers_to_the_images_that_were_not_decided(audit):
    mad, each = audit.table("dalleval_mad"), audit.table("dalleval_professions")
    for row in mad[mad["indicator"] != "(all)"].itertuples():
        own = each[(each["source"] == row.source) & (each["question"] == row.question)]
        own = own[own["indicator"] == row.indicator]
        assert row.average_least <= row.average + 1e-12 and row.average_most >= row.average - 1e-12
        if (own["decided"] == own["asked"]).all():
            assert row.average_least == pytest.approx(row.average) == pytest.approx(row.average_most)
