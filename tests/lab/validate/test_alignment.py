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
