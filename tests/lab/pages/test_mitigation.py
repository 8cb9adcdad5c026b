"""The page on mitigation is made of what is stored beside it."""

import yaml

from lab.pages.mitigation import DOCS, PLACES, RESULT, RIDGES, page
from probes.json_text import parse_json


def stored():
    return [parse_json(file.read_text(encoding="utf-8")) for file in (RESULT, PLACES, RIDGES)]


def test_the_page_of_the_docs_is_current():
    assert (DOCS / "mitigation.md").read_text(encoding="utf-8") == page(*stored())


def test_both_sides_are_the_same_images_and_the_edit_is_that_of_the_configuration():
    result, _, ridges = stored()
    edit = yaml.safe_load((DOCS / "mitigation.yaml").read_text(encoding="utf-8"))["edit"]
    made = result["after"]["edit"]["edit"]
    assert made["words"] == edit["words"] and made["contexts"] == edit["contexts"]
    # the usual ridge and the amount that was found with it on other captions
    assert made["ridge"] == ridges["ridge"]
    assert edit["words"]["person"]["woman"] == round(ridges["amount"], 2)
    assert result["images_left_out"] == [0, 0] and isinstance(result["images"], int)
