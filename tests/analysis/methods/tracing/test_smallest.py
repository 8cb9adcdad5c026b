"""The smallest sets of places for an effect, in wired worlds."""

import pandas as pd
import pytest

from analysis.methods.tracing.figures import patch_name
from analysis.methods.tracing.smallest import ENOUGH, NEEDED, smallest_set
from tests.analysis.methods.tracing.test_together import SITES, both, effects, said, tables


@pytest.mark.parametrize(
    ("world", "enough", "needed"),
    [
        ("redundant", 1, 2),  # one will do; one alone leaves the other
        ("dependent", 2, 1),  # both must be given the word; either is needed for all of it
        ("apart", 2, 2),  # each does a part
        ("opposing", 0, 0),  # one acts against the word
    ],
)
def test_they_are_what_the_wiring_says(world, enough, needed):
    made = tables(effects(world, seed=2))
    for estimand, number, aim in (
        (ENOUGH, enough, "To draw the reference word as one of the others, edit "),
        (NEEDED, needed, "To take out what parts the words, edit "),
    ):
        found = smallest_set(both(made, "trace_shares"), estimand)
        texts = [text for text in said(made) if text.startswith(aim)]
        if not number:
            assert found is None and not texts
            continue
        assert len(found.sites) == number and set(found.sites) <= set(SITES[:2])
        assert 0.8 <= found.share <= 1.1 and found.low < found.share < found.high
        assert texts[0].startswith(aim + patch_name(pd.Series({"site": found.sites[0]})))
        assert f"({estimand} {found.share:.2f} [" in texts[0]


def test_of_places_that_were_never_patched_at_once_all_that_do_some_are_named():
    made = tables(effects("apart", pairs=False))
    found = smallest_set(both(made, "trace_shares"), NEEDED)
    assert set(found.sites) == set(SITES[:2]) and not found.at_once
    assert found.share == pytest.approx(1, abs=0.1)
    assert "edit all places that are told to do some of it: down 0" in str(said(made))


@pytest.mark.parametrize("address", ["dit.block.{}.joint", "unet.mid.attn.{}.self"])
@pytest.mark.parametrize("pairs", [True, False])
def test_no_edit_is_suggested_where_none_can_be_made(address, pairs):
    made = tables(effects("apart", pairs=pairs))
    for number, site in enumerate(SITES):
        made["trace_shares"]["site"] = made["trace_shares"]["site"].str.replace(site, address.format(number))
    for estimand, word in ((ENOUGH, "enough"), (NEEDED, "needed")):
        found = smallest_set(both(made, "trace_shares"), estimand)
        assert set(found.sites) == {address.format(0), address.format(1)} and not found.editable
        begun = (
            f"The smallest set of places that is {word} for 0.8 of the effect is "
            if pairs
            else f"The places that are told to be {word} for some of the effect are "
        )
        (text,) = [one for one in said(made) if one.startswith(begun)]
        assert f"({estimand} {found.share:.2f} [" in text or not pairs
    texts = said(made)
    assert not any(", edit " in text for text in texts)
    assert (
        texts.count("Edits are for U-Nets, at their cross-attentions: none can be made at these places.") == 1
    )


def test_a_place_that_is_needed_and_not_enough_is_named():
    texts = said(tables(effects("dependent")))
    (text,) = [text for text in texts if text.startswith("No place alone is told to be enough")]
    assert "the one that is needed most is" in text and "The largest share is" not in text
    assert "for 1.0" in text or "for 0.9" in text
