"""The section on a trace: figures and sentences from tables whose truth is known."""

import re

from analysis.methods.tracing import latex
from analysis.methods.tracing.cuts import UNTESTED
from analysis.methods.tracing.section import draw, draw_trace, lead, read_trace, section, sentences
from analysis.methods.tracing.tables import measure_trace
from analysis.report.environment import environment
from analysis.tables.sharing import Sharing
from probes.config.measurement import Trace
from probes.execution.processes import Helpers
from probes.runs.run import Run
from tests.analysis.synthetic_run import configure, write_run
from tests.analysis.traced_parts import STEPS, Truth, add_trace


def outcomes(run):
    """The outcome that is shown, a row a triplet."""
    table = run.table("trace_outcomes")
    table = table[table["outcome"] == table["outcome"].iloc[0]]
    return table.pivot(index=["triplet", "seed"], columns="variant", values="value")


def page(run, traced, figures):
    template = environment().get_template("analysis.methods.tracing/section.html.j2")
    return template.render(shown=section(traced, run.config), figures=figures, level=0.95, unit="prompt")


def test_every_figure_of_a_whole_trace_is_drawn(run):
    assert list(draw_trace(run)) == ["trace-shares", "trace-windows", "trace-heads"]


def test_the_section_says_what_was_traced_and_what_came_out(run):
    traced = read_trace(run)
    html = page(run, traced, {})
    assert "Traced: 18 prompts with 1 seed each, 3 places one by one." in html
    shares = traced.shown("trace_shares").query("kind == 'site' and estimand == 'beyond'")
    beyond = int((shares["p_adjusted"] < 0.05).sum())
    assert "The largest share is that of mid · attn 0 · cross: 1.00 [" in html
    assert f"{beyond} of 3 places " in html
    answer = lead(traced, run.config).answer
    assert len(answer.split()) <= 30 and "mid · attn 0 · cross: 1.00 [" in answer
    assert f"{beyond} of 3 places " in answer
    values, wide = [one.value for one in lead(traced, run.config).examples], outcomes(run)
    totals = wide["none:masculine"] - wide["none:feminine"]
    assert values[0] == totals.min() and values[-1] == totals.max() and len(values) == 3
    for one in lead(traced, run.config).examples:
        labels = ["feminine", "neutral", "masculine", "neutral, patched at mid · attn 0 · cross"]
        assert [picture.label for picture in one.pictures] == labels
        *_, donor, patched = one.pictures  # at the deciding place the patched image is the donor's
        assert donor.reading == patched.reading and donor.image.tobytes() == patched.image.tobytes()
    assert "7 of 7 cuts do" in html and "nan" not in html
    total = run.table("trace_total")["total"][0]
    assert f'value="{total}"' in html


def test_a_total_effect_that_cannot_be_told_from_0_has_no_shares_and_tests_no_cuts(tmp_path):
    path = write_run(tmp_path / "run", prompts=3, seeds=1, steps=STEPS)
    assert read_trace(Run.open(path)) is None and draw_trace(Run.open(path)) == {}
    found = add_trace(path, Truth(share_masculine=1.0, trace=Trace()))
    configure(found, measure={"bootstrap": 20, "permutations": 20, "outcomes": ["kite"]})  # nothing plants it
    with Helpers() as helpers:
        measure_trace(found, Sharing(found, helpers, 1))
    traced = read_trace(found)
    said = sentences(traced, found.config)
    assert said[0].endswith("so there are no shares of it to state.")
    beyond = "0 of 3 places are beyond what a word of the same meaning does (p < 0.05, adjusted over all)."
    assert said[1:] == [beyond]
    effects = draw(traced, found.config)["trace-shares"]
    assert effects.title.startswith("Effects") and effects.caption.endswith("cannot be told from 0.")
    labels = [tick.get_text() for tick in effects.figure.axes[0].get_yticklabels()]
    assert len(labels) == 4 and "mid · attn 0 · cross" in labels
    cuts = found.table("trace_cuts").set_index("cut")
    assert cuts.loc[["self"], "holds"].all() and not cuts.loc[["complete", "before"], "holds"].any()
    assert (cuts.loc[["complete", "before"], "reason"] == UNTESTED).all()
    html = page(found, traced, {})
    assert "cannot be tested: no prompt has a total effect" in html and "does not hold" not in html


def test_the_shares_as_latex(run):
    ((name, text),) = latex.documents(run)
    assert name == "trace_shares"
    assert re.search(r"mid · attn 0 · cross & 1\.00 & \[[^&]+\] & 1\.00 & \[[^&]+\] & 0\.00 &", text)
    assert text.count("\\\\") == 1 + 3 + 1 + 1  # head, places, all together, the word's positions
