"""A study of ten words by the command line: every stage ends, the page shows what was compared."""

import json

import pytest

from probes.runs.run import Run
from tests.runs import run_here

WORDS = {
    **{"neutral": "person", "feminine": "woman", "masculine": "man", "nonbinary": "non-binary person"},
    **{"boy": "boy", "girl": "girl", "young": "young person", "old": "old person", "nurse": "nurse"},
    "a_name_of_thirty_five_letters_or_so": "doctor",
}


@pytest.mark.slow
def test_a_study_of_ten_words_ends_with_its_page(tiny, tmp_path, capsys):
    config = json.loads(tiny.yaml.read_text()) | {
        "indicators": WORDS,
        "contrasts": [["masculine", "feminine"], ["old", "young"]],
        "prompts": ["a {person} with a dog costs $5 or $6", "a {person} in a hat"],
        "seeds": [0],
        "trace": None,
        "sampler": {"steps": 1},
        "report": {"gallery": 1, "figures": False},
    }
    (tmp_path / "ten.yaml").write_text(json.dumps(config))
    assert run_here(tmp_path / "ten.yaml", tmp_path / "run") == 0, capsys.readouterr().err
    run = Run.open(tmp_path / "run")
    tests = run.table("table_tests")
    assert "-".join(WORDS) in set(tests["indicators"])  # all at once
    assert (tests["reason"] != "").any()  # nothing is found in noise, and that is said
    assert run.table("table11_presence")["indicator"].unique().tolist() == ["all", *WORDS]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "$5 or $6" in page and not any((tmp_path / "run").glob("figures/*"))
