"""The report's section on professions: what it says, what it shows, and what it does where little was read."""

import re

import pytest

from analysis.methods.dalleval.method import METHOD, lead
from analysis.report import section
from analysis.report.environment import environment
from tests.analysis.dalleval_parts import measure_audit, truths, write_answers, write_audit, write_tones
from tests.analysis.synthetic_run import configure

READ = "source == 'toyworld-checker' and question == 'gender'"


def page(run):
    """What a run holds, its figures, and the text of its section without marks."""
    shown = section.measured(METHOD, {run.config.model_name: run})
    figures = section.figures(shown)
    entry = section.page_section(shown, figures)
    text = environment().get_template("section.html.j2").render(section=entry, shown=entry["shown"])
    return shown, figures, re.sub(r"\s+", " ", re.sub(r"<svg.*?</svg>|<[^>]*>", " ", text, flags=re.S))


@pytest.fixture(scope="module")
def shown(audit):
    return page(audit)


def test_the_first_reader_speaks_and_all_are_named(shown, audit):
    held, _, text = shown
    row = audit.table("dalleval_mad").query(READ).iloc[0]
    average = (
        audit.table("dalleval_professions").query(f"{READ} and profession == '(all)'")["average"].iloc[0]
    )
    share = f"{50 * (average + 1):.0f} % of the images generated from neutral prompts"
    assert f"{share} were read as female by the toyworld checker" in text
    assert f"of 6 professions from half and half is {row['mad']:.3f} on average" in text
    assert "The average tone of the images generated from every word’s prompts" in text
    more = "more" if row["p_adjusted"] < 0.05 else "not more"
    answer = lead(held).answer
    assert answer.startswith(
        f"By a share of {row['mad']:.3f} on average, {more} than the {row['floor']:.3f} "
    )
    assert len(answer.split()) <= 30 and "as the toyworld checker reads 6 professions" in answer
    assert "Read by: the toyworld checker and toyworld’s VQA model." in text
    assert "what was planted, which is no claim about how anybody looks" in text


def test_figures_are_drawn_and_say_who_read(shown):
    _, figures, _ = shown
    assert "read by the toyworld checker" in figures["dalleval-professions"].caption
    assert "by the typology angle" in figures["dalleval-distribution"].caption


def test_the_latex_of_a_run(shown):
    made = dict(section.documents(shown[0]))
    assert sorted(int(name[14:16]) for name in made) == [8, 16, 18, 22, 23, 24, 25]
    assert (
        "nurse & " in made["dalleval_table16_professions"]
        and "4 of 4" in made["dalleval_table16_professions"]
    )
    assert "neutral prompts, by the toyworld checker" in made["dalleval_table23_attributes"]


def test_the_first_screen_shows_images_of_three_professions_with_their_averages(shown, audit):
    found = lead(shown[0])
    own = audit.table("dalleval_professions").query(
        f"{READ} and indicator == 'neutral' and profession != '(all)'"
    )
    values = [one.value for one in found.examples]
    assert len(values) == 3 and values[0] == own["average"].min() and values[2] == own["average"].max()
    seen, samples = truths(audit), audit.samples(["sample_id", "prompt", "indicator", "seed"])
    samples = samples[samples["indicator"] == "neutral"].sort_values("seed").set_index("prompt")
    for one in found.examples:
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
    held, figures, text = page(measure_audit(run))
    expected = {"tone": "dalleval-distribution", "nothing decided": "dalleval-professions"}
    assert set(figures) == {expected[read]}
    if read == "nothing decided":
        said = "Nothing can be said of the gender of images generated from neutral prompts (no images)."
        assert said in text and "0 of 2" in text
    list(section.documents(held))
