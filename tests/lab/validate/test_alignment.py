"""The page on alignment and quality is made of its numbers, and of nothing else."""

import json

from lab.validate import alignment


def test_the_page_is_that_of_the_numbers():
    numbers = json.loads((alignment.DOCS / "alignment.json").read_text("utf-8"))
    page = (alignment.DOCS / "alignment.md").read_text("utf-8")
    assert page == alignment.page(numbers)
    assert list(numbers) == list(alignment.BENCHMARK_MODELS)
    changed = json.loads(json.dumps(numbers))
    changed["toyworld"][0]["r_precision"] = 0.987
    assert "0.987" in alignment.page(changed) and "0.987" not in page


def test_a_row_keeps_its_names_and_what_is_a_number():
    row = {"features": "clip", "reason": "", "r_precision": 1 / 3, "low": float("nan"), "pool": "word"}
    stored = {"table": "a", "features": "clip", "reason": "", "r_precision": 0.333333}
    assert alignment._stored("a", row) == stored
