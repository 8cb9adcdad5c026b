"""The pairs of top places: chosen from a pilot, the same by whoever draws it, stored with the run."""

import shutil
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from probes.config.trace_options import Trace
from probes.runs import rows
from probes.runs.images import read_image
from probes.runs.store import Run
from probes.stages.trace import stage, top_places
from probes.stages.trace.variants import plan
from tests.probes.stages.trace.test_variants import CROSS, PLACES, WORDS
from tests.test_trace import model, run, settings, stored  # noqa: F401

SITES = tuple(f"unet.{number}.cross" for number in range(6))
WIDE = replace(PLACES, cross=SITES, sites=SITES)


def picture(value):
    return {"bytes": rows.png(np.full((4, 4, 3), value)), "path": "x.png"}


def pilot_rows(enough, needed, prompts=2):
    """Rows of a pilot: how far each place moves the reference's image towards white, and a word's back to black."""
    pilot, found = top_places.pilot(WORDS, WIDE, Trace()), []
    for triplet in range(prompts):
        for one in pilot.variants:
            value = 0.0 if one.recipient == WORDS.reference else 0.9
            if one.kind == "site":
                moved = (enough if one.recipient == WORDS.reference else needed)[SITES.index(one.sites[0])]
                value += moved if one.recipient == WORDS.reference else -moved
            row = {"triplet": triplet, "seed": 0, **one.row(), "fault": None, "image": picture(value)}
            found.append(row)
    return pilot, found


def chosen(enough, needed):
    pilot, found = pilot_rows(enough, needed)
    return top_places.pairs_of(found, pilot, WORDS.reference)


def test_a_pilot_sweeps_the_ways_of_the_text_both_ways():
    pilot = top_places.pilot(WORDS, WIDE, Trace(curve=5, positions=["word"], shapley=3, heads=[]))
    assert {one.kind for one in pilot.variants} == {"none", "site"} and not pilot.permutations
    assert len(pilot.patched) == 4 * len(SITES) and not any(one.floor for one in pilot.variants)
    assert len(top_places.pilot(WORDS, WIDE, Trace(necessity=False)).patched) == 2 * len(SITES)
    # it is none where there is nothing to choose, or where a place may hold what an earlier one wrote
    for trace in (Trace(pairs=[]), Trace(pairs="all"), Trace(part="output"), Trace(part="query")):
        assert top_places.pilot(WORDS, WIDE, trace) is None
    assert top_places.pilot(WORDS, replace(WIDE, sites=(SITES[0], "unet.mid")), Trace()) is None
    assert not [one for one in plan(WORDS, WIDE, Trace()).variants if one.kind == "pair"]


def test_places_are_taken_by_turns_and_those_that_change_nothing_never():
    # three by what they are enough for and three by what they are needed for, four in all
    found = chosen([0.1, 0.5, 0.3, 0.2, 0.0, 0.0], [0.0, 0.6, 0.0, 0.0, 0.4, 0.5])
    assert found == list(combinations([SITES[number] for number in (1, 2, 3, 5)], 2)) and len(found) == 6
    # alone neither does anything, and both are needed
    assert chosen([0.0] * 6, [0, 0, 0.8, 0, 0.8, 0]) == [(SITES[2], SITES[4])]
    # one place alone has no pair; less than a hundredth of what the words change is nothing
    assert chosen([0, 0, 0.8, 0, 0, 0], [0, 0, 0.8, 0, 0, 0]) == []
    assert chosen([0, 0.006, 0.8, 0, 0, 0], [0, 0, 0.8, 0, 0, 0]) == []
    assert chosen([0] * 6, [0] * 6) == []


def test_images_at_fault_are_left_out():
    pilot, found = pilot_rows([0.1, 0.5, 0, 0, 0, 0], [0] * 6)
    for row in found:
        if row["triplet"] == 0 and (row["kind"] == "none" or row["sites"] == (SITES[1],)):
            row |= {"fault": "nan", "image": None}
    assert top_places.pairs_of(found, pilot, WORDS.reference) == [(SITES[0], SITES[1])]
    every = [row | {"fault": "nan", "image": None} for row in found]
    assert top_places.pairs_of(every, pilot, WORDS.reference) == []


def test_the_pooled_text_is_paired_with_an_attention_as_a_way_of_the_text():
    pooled = replace(PLACES, sites=("text.pooled", *CROSS), inputs=("text.pooled", "dit.in.text"))
    assert top_places.candidates(pooled, Trace())[0] == "text.pooled"
    assert "text.pooled" not in top_places.candidates(pooled, Trace(source="local"))
    found = plan(WORDS, pooled, Trace(pairs=[["text.pooled", CROSS[1]]])).variants
    pairs = [one for one in found if one.kind == "pair"]
    assert {one.sites for one in pairs} == {("text.pooled", CROSS[1])}
    assert {one.part for one in pairs} == {"key+value"} and len(pairs) == 5


@pytest.fixture(scope="module")
def traced(model, tmp_path_factory):  # noqa: F811
    """A run with a trace of all defaults but for its size."""
    folder = tmp_path_factory.mktemp("traced")
    assert run(asked(folder, model), folder / "run", "--stage", "generate") == 0
    shutil.copytree(folder / "run", folder / "generated")
    assert run(asked(folder, model), folder / "run", "--stage", "trace") == 0
    return folder / "run"


def asked(folder, model, **more):  # noqa: F811
    return settings(
        folder,
        model,
        trace={"sites": "default", "curve": 0, "positions": [], "cuts": False, "necessity": True, **more},
    )


def test_the_pairs_of_a_run_are_drawn_both_ways_and_recorded(traced):
    record, table = Run.open(traced).meta["trace"], Run.open(traced).traced()
    pairs, chosen = table[table["kind"] == "pair"], {tuple(pair) for pair in record["pairs"]}
    assert record["config"]["pairs"] == "top" and 1 <= len(chosen) <= 6
    assert {tuple(sites) for sites in pairs["sites"]} == chosen
    # two donors both ways, and the synonym
    assert (pairs.groupby(["triplet", "seed"]).size() == len(chosen) * 5).all()
    ways = {(recipient, donor) for donor in ("feminine", "masculine") for recipient in ("neutral",)}
    expected = ways | {(donor, recipient) for recipient, donor in ways} | {("neutral", "human")}
    assert set(zip(pairs["recipient"], pairs["donor"])) == expected
    # by hand: the place that changes most by sufficiency is in a pair, over both prompts
    plain = {row.triplet: whole(row) for row in table[table["variant"] == "none:neutral"].itertuples()}
    alone = table[(table["kind"] == "site") & (table["recipient"] == "neutral") & ~table["floor"]]
    changed = {}
    for row in alone.itertuples():
        change = np.abs(whole(row) - plain[row.triplet]).mean()
        changed[row.sites[0]] = changed.get(row.sites[0], 0.0) + change
    assert max(changed, key=changed.get) in {site for pair in chosen for site in pair}


def whole(row):
    return np.asarray(read_image(row.image["bytes"]), float)


@pytest.mark.slow
def test_shards_and_an_interrupted_run_find_the_same_pairs(traced, model, tmp_path, monkeypatch):  # noqa: F811
    file, expected = asked(tmp_path, model), stored(traced)
    shards = shutil.copytree(traced.parent / "generated", tmp_path / "shards")
    for index in range(2):
        assert run(file, shards, "--stage", "trace", "--shard", f"{index}/2") == 0
    assert stored(shards) == expected
    # interrupted in the pilot, and after it: what was chosen is not chosen again
    stopped, real, batches = (
        shutil.copytree(traced.parent / "generated", tmp_path / "stopped"),
        stage.draw,
        [],
    )

    def interrupted(*arguments, **options):
        batches.append(arguments)
        if len(batches) in at:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(stage, "draw", interrupted)
    at = {1}
    assert run(file, stopped, "--stage", "trace") == 130
    assert not stored(stopped) and not (Run.open(stopped).meta.get("trace") or {}).get("pairs")
    choices, choose = [], stage.pairs_of
    monkeypatch.setattr(stage, "pairs_of", lambda *those: choices.append(0) or choose(*those))
    at, batches[:] = {30}, []
    assert run(file, stopped, "--stage", "trace") == 130 and len(choices) == 1
    assert 0 < len(stored(stopped)) < len(expected)
    assert run(file, stopped, "--stage", "trace") == 0 and len(choices) == 1
    assert stored(stopped) == expected
    # what is gone on with is the same trace; without pairs it is another
    assert run(asked(tmp_path, model, pairs=[]), stopped, "--stage", "trace") == 2


def test_a_dry_run_counts_what_may_be_chosen(model, tmp_path, capsys):  # noqa: F811
    assert run(asked(tmp_path, model), tmp_path / "none", "--dry-run") == 0
    found = capsys.readouterr().out
    # of 7 attentions alone and complete, and of 4 all pairs, of 2 donors both ways and a control
    assert (
        f"trace: 2 triplets and seeds x at most {5 * (7 + 1 + 6)} variants, and a pilot of 2 x 28: " in found
    )
