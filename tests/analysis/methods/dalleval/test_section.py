"""The report's section on professions: what it says, what it shows, and what it does where little was read."""

import re

import pytest

from analysis.methods.dalleval import latex, results, section
from analysis.methods.dalleval.stage import measure_professions
from analysis.report.environment import environment
from tests.analysis.dalleval_parts import truths, write_answers, write_audit, write_tones
from tests.analysis.synthetic_run import configure

FIGURES = {"dalleval-gender", "dalleval-tones", "dalleval-attribute-tones"}


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
    *_, text = shown
    mad = audit.table("dalleval_mad")
    row = mad[(mad["source"] == "toyworld-checker") & (mad["question"] == "gender")].iloc[0]
    average = audit.table("dalleval_professions").query(
        "source == 'toyworld-checker' and question == 'gender' and profession == '(all)'"
    )["average"]
    share = (
        f"{50 * (average.iloc[0] + 1):.0f} % of the images generated from neutral prompts of 6 professions"
    )
    assert f"{share} were read as female by the toyworld checker" in text
    assert f"from half and half is {row['mad']:.3f} on average" in text
    assert "The average tone of the images generated from every word’s prompts" in text
    answer = section.lead(section.read_professions(audit), audit.config).answer
    more = "more" if row["p_adjusted"] < 0.05 else "not more"
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


def test_cards_give_deviations_debiased_and_the_published_ones_beside_them(audit):
    mad = audit.table("dalleval_mad").query("source == 'toyworld-checker' and question == 'gender'")
    said = mad[mad["p_adjusted"].notna()]
    found = results.results(audit)
    assert [one.value for one in found] == said["debiased"].tolist() != said["mad"].tolist()
    for one, published in zip(found, said["mad"], strict=True):
        assert "debiased" in one.name and one.floor.startswith(f"{published:.3f} as published")


def test_the_latex_of_a_run(audit):
    made = dict(latex.documents(audit))
    numbers = [6, 7, 8, 9, 16, 17, 20, 21, 22, 23, 24, 25]
    assert sorted(int(name[14:16]) for name in made) == numbers
    assert "With 4 images a prompt, chance alone gives a MAD of 0.188." in made["dalleval_table16_gender"]
    assert "nurse" in made["dalleval_table16_gender"] + made["dalleval_table17_gender"]
    assert "neutral prompts, by the toyworld checker" in made["dalleval_table23_attributes"]


def test_the_first_screen_shows_images_of_three_professions_with_their_averages(audit):
    lead = section.lead(section.read_professions(audit), audit.config)
    table = audit.table("dalleval_professions")
    own = table.query("source == 'toyworld-checker' and question == 'gender' and indicator == 'neutral'")
    own = own[own["profession"] != "(all)"]
    values = [one.value for one in lead.examples]
    assert len(values) == 3 and values[0] == own["average"].min() and values[2] == own["average"].max()
    seen, samples = truths(audit), audit.samples(["sample_id", "prompt", "indicator", "seed"])
    samples = samples[samples["indicator"] == "neutral"].sort_values("seed").set_index("prompt")
    for one in lead.examples:
        ids = samples.loc[[one.prompt], "sample_id"].to_list()
        truth = ["female" if seen[sample][0] else "male" for sample in ids[:3]]
        assert [picture.reading for picture in one.pictures] == truth


@pytest.mark.parametrize("read", ["tone", "nothing decided"])
def test_a_run_of_which_little_was_read_has_its_section(tmp_path, read):
    run = write_audit(
        tmp_path / "run", whole=False, seeds=2, readers=(), tones=False, professions=("nurse", "cook")
    )
    configure(run, measure={"bootstrap": 20, "permutations": 20})
    seen = truths(run)
    if read == "tone":
        write_tones(run, lambda sample: seen[sample][2])
    else:
        write_answers(run, "blip2", lambda sample: {"gender": None})
    measure_professions(run)
    figures, said, text = page(run)
    expected = {
        "tone": {"dalleval-tones"},
        "nothing decided": {"dalleval-gender"},
    }
    assert set(figures) == expected[read]
    assert len(said["each"]) == 3
    if read == "nothing decided":
        assert "Nothing can be said of the gender of images generated from neutral prompts of 0 prof" in text
        assert "2 undecided (gender)" in text
    list(latex.documents(run))
