"""The section on a trace: figures and sentences from tables whose truth is known."""

import re

from analysis.methods.tracing.cuts import UNTESTED
from analysis.methods.tracing.method import METHOD
from analysis.report.section import documents, figures, lines, measured, sentences
from probes.config.measurement import Trace
from probes.runs.run import Run
from tests.analysis.methods.tracing.conftest import measured_trace
from tests.analysis.synthetic_run import configure, write_run
from tests.analysis.traced_parts import STEPS, Truth, add_trace


def shown_of(run):
    return measured(METHOD, {"toyworld": run})


def said(shown):
    return [line for spec in METHOD.tables for line in sentences(shown, spec)]


def test_every_figure_of_a_whole_trace_is_drawn(run):
    assert list(figures(shown_of(run))) == ["trace-shares", "trace-windows", "trace-heads"]


def test_the_section_says_what_was_traced_and_what_came_out(run):
    shown = shown_of(run)
    (opening,) = lines(METHOD.intro, shown.words)
    assert opening.startswith("Traced: 18 prompts with 1 seed each, 3 places one by one.")
    rows = shown.rows("trace_shares", "outcome == @shown and donor == @both and kind == 'site'")
    beyond = int((rows["p_adjusted"][rows["estimand"] == "beyond"] < 0.05).sum())
    total, largest, cuts = said(shown)
    assert total.startswith("Between images generated from masculine and feminine prompts")
    assert largest.startswith("The largest share is that of mid · attn 0 · cross: 1.00 [")
    assert f"{beyond} of 3 places " in largest and cuts.startswith("7 of 7 cuts come out")
    first = shown.lead
    assert len(first.answer.split()) <= 30 and "mid · attn 0 · cross: 1.00 [" in first.answer
    assert f"{beyond} of 3 places " in first.answer


def test_a_total_effect_that_cannot_be_told_from_0_has_no_shares_and_tests_no_cuts(tmp_path):
    path = write_run(tmp_path / "run", prompts=3, seeds=1, steps=STEPS)
    assert shown_of(Run.open(path)) is None
    found = add_trace(path, Truth(share_masculine=1.0, trace=Trace()))
    configure(found, measure={"bootstrap": 20, "permutations": 20, "outcomes": ["kite"]})  # nothing plants it
    shown = shown_of(measured_trace(found))
    total, beyond, untested = said(shown)
    assert total.endswith("there are no shares of it.")
    assert beyond == "0 of 3 places do more than a synonym (p < 0.05, adjusted over all)."
    assert untested.startswith("1 of 1 cuts come out")
    effects = figures(shown)["trace-shares"]
    assert effects.title.startswith("Effects") and effects.caption.endswith("cannot be told from 0.")
    labels = [tick.get_text() for tick in effects.figure.axes[0].get_yticklabels()]
    assert len(labels) == 4 and "mid · attn 0 · cross" in labels
    cuts = found.table("trace_cuts").set_index("cut")
    assert cuts.loc[["self"], "holds"].all() and not cuts.loc[["complete", "before"], "holds"].any()
    assert (cuts.loc[["complete", "before"], "reason"] == UNTESTED).all()


def test_the_shares_as_latex(run):
    ((name, text),) = documents(shown_of(run))
    assert name == "trace_shares"
    numbers = r"1\.00 \[[^&]+\] & (\d\.\d+|\$.*?\$) & \$\+\$\d+\.\d\d \[[^&]+\] & 18 &"
    assert re.search(rf"mid · attn 0 · cross & {numbers}", text)
    assert text.count("\\\\") == 1 + 3 + 1 + 1  # head, places, all together, the word's positions
