"""The smallest sets of places for an effect, in wired worlds, and the edit that is made of it."""

from dataclasses import replace

import pandas as pd
import pytest
import yaml

from analysis.methods.tracing.figures import patch_name
from analysis.methods.tracing.smallest import ENOUGH, NEEDED, PlaceSet, smallest_set
from analysis.methods.tracing.tables import measure_trace
from analysis.tables.sharing import Sharing
from probes.config.edit_options import Edit
from probes.execution.team import Team
from tests.analysis.methods.tracing.test_together import SITES, both, effects, said, tables
from tests.analysis.synthetic_run import configure, write_run
from tests.analysis.traced_parts import CROSS, STEPS, add_trace
from triptych.cli.main import command

main = command("edit")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = write_run(tmp_path_factory.mktemp("runs") / "run", prompts=24, seeds=1, steps=STEPS)
    found = configure(add_trace(path), measure={"bootstrap": 999, "permutations": 100})
    with Team() as team:
        measure_trace(found, Sharing(found, team, 1))
    return found


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


def test_the_command_writes_a_configuration_with_the_edit(run, tmp_path, capsys):
    (run.path / "triplets.yaml").write_text(
        "# mine\nmodel: toyworld\nedit: null\nprompts: ['a {person}']\n", "utf-8"
    )
    out = tmp_path / "edited.yaml"
    assert main([str(run.path), "--towards", "woman", "--share", "0.25", "--out", str(out)]) == 0
    text = out.read_text("utf-8")
    assert text.startswith("# mine\nmodel: toyworld\n") and text.count("edit:") == 1
    found = Edit.model_validate(yaml.safe_load(text)["edit"])
    assert found.words == {run.config.indicators[run.config.reference].word: {"woman": 0.25}}
    assert found.sites == [CROSS[1]] and "woman" in found.keep
    assert f"next: triptych run {out}" in capsys.readouterr().out
    for options, line in (
        ([], "expected no file yet, found one"),
        (["--overwrite", "--share", "1000"], "command line: expected a number of at most 100.0, got 1000.0"),
        (
            ["--overwrite", "--towards", ""],
            "--towards: expected a word whose effect was traced (man or woman), got ''",
        ),
    ):
        assert main([str(run.path), "--towards", "woman", "--out", str(out), *options]) == 2
        error = capsys.readouterr().err
        assert line in error and len(error.splitlines()) == 1 and "\x00" not in error


def test_the_configuration_that_is_written_does_not_trace_again(run, tmp_path, capsys):
    copy = run.path / "triplets.yaml"
    before = "model: toyworld # mine\nprompts: ['a {person}']\n"
    for text, kept in (
        (
            f"{before}trace:\n  windows: 4\n  heads: [unet.mid.attn.0.cross]\n# seeds\nseeds: [0]\n",
            "# seeds\n",
        ),
        (f"trace: {{}}\nedit:\n{before}seeds: [0]\n", "# mine"),
        ('{"model": "toyworld", "prompts": ["a {person}"],\n "trace": {"windows": 4}, "seeds": [0]}', ""),
    ):
        copy.write_text(text, "utf-8")
        out = tmp_path / "edited.yaml"
        assert main([str(run.path), "--towards", "woman", "--out", str(out), "--overwrite"]) == 0
        written = out.read_text("utf-8")
        found = yaml.safe_load(written)
        assert found.pop("edit")["words"] and kept in written
        assert found == {"model": "toyworld", "prompts": ["a {person}"], "seeds": [0]}
        assert "without `trace:`" in capsys.readouterr().out


def test_a_place_that_cannot_be_edited_is_refused(run, tmp_path, capsys, monkeypatch):
    found = PlaceSet(("dit.block.1.joint",), 0.9, 0.8, 1.0)
    monkeypatch.setattr("analysis.methods.tracing.smallest.smallest_set", lambda *about: found)
    assert main([str(run.path), "--towards", "woman", "--out", str(tmp_path / "edited.yaml")]) == 2
    error = capsys.readouterr().err
    assert "expected cross-attentions of a U-Net to edit, got dit.block.1.joint" in error
    assert len(error.splitlines()) == 1 and not list(tmp_path.iterdir())


def test_an_edit_that_the_trace_does_not_support_is_refused(run, tmp_path, capsys, monkeypatch):
    """Of a word without an effect of its own, and of places that were never patched at once."""
    from analysis.methods.tracing import stored

    traced = stored.read_trace(run)
    total = traced.tables["trace_total"]
    other = total["donor"].eq("feminine")
    cases = (
        ("trace_total", total.assign(told_from_0=total["told_from_0"] & ~other)),
        (
            "trace_shares",
            traced.tables["trace_shares"].assign(sufficiency=lambda table: table["sufficiency"] / 2),
        ),
    )
    out = tmp_path / "edited.yaml"
    for name, table in cases:
        changed = replace(traced, tables={**traced.tables, name: table})
        monkeypatch.setattr(stored, "read_trace", lambda run, changed=changed: changed)
        assert main([str(run.path), "--towards", "woman", "--out", str(out)]) == 2
        line = "expected places that are enough for 0.8 of the effect of 'woman' when patched at once"
        assert line in capsys.readouterr().err and not out.exists()


def test_a_run_without_a_trace_is_refused(tmp_path, capsys):
    plain = write_run(tmp_path / "run", prompts=2, seeds=1, steps=STEPS)
    assert main([str(plain.path if hasattr(plain, "path") else plain), "--towards", "woman"]) == 2
    assert "expected a measured trace, found none" in capsys.readouterr().err
