"""Studies of other words than the three, by the command line: every stage ends, the page shows what was compared."""

from __future__ import annotations

import pytest

from probes.runs.run import Run
from triptych.cli.main import main

YAML = """\
model: {model}
indicators: {indicators}
reference: {reference}
{more}
prompts:
  - a {{person}} with a dog costs $5 or $6
  - a {{person}} in a hat
sampler: {{steps: 1}}
generate: {{device: cpu}}
observe: {{engine: toyworld-checker}}
measure: {{bootstrap: 20, permutations: 30}}
report: {{gallery: {gallery}, figures: false}}
"""
TEN = (
    "{neutral: person, feminine: woman, masculine: man, nonbinary: non-binary person, boy: boy, girl: girl,"
    " young: young person, old: old person, nurse: nurse, a_name_of_thirty_five_letters_or_so: doctor}"
)
STUDIES = {
    "ten": {
        "indicators": TEN,
        "reference": "neutral",
        "more": "contrasts: [[masculine, feminine], [old, young]]",
        "gallery": 0,
    },
    "two": {"indicators": "{doctor: doctor, nurse: nurse}", "reference": "doctor", "more": "", "gallery": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(STUDIES))
def test_a_study_ends_with_its_page(name, tiny, tmp_path, capsys):
    file, out = tmp_path / f"{name}.yaml", tmp_path / "run"
    file.write_text(YAML.format(model=tiny.yaml.parent / "tiny", **STUDIES[name]))
    assert main([str(file), "--out", str(out), "--quiet"]) == 0, capsys.readouterr().err
    run, page = Run.open(out), (out / "report.html").read_text(encoding="utf-8")
    names = list(run.config.indicators)
    tests = run.table("table_tests")
    assert "-".join(names) in set(tests["indicators"])  # all at once
    assert run.table("table11_presence")["indicator"].unique().tolist() == ["all", *names]
    assert ("The gallery is empty" in page) == (STUDIES[name]["gallery"] == 0)
    if name == "ten":
        assert len(names) == 10
        assert (tests["reason"] != "").any()  # nothing is found in noise, and that is said
    else:
        assert "$5 or $6" in page
