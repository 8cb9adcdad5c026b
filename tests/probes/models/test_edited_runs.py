"""Runs of an edited model: what they record, that they are no other's, that helpers load the same, what is refused."""

import json
import pickle

import pytest

from probes.config.schema import Config
from probes.errors import UserError
from probes.execution.workers import BatchSize
from probes.models import loading
from probes.runs.record import part_fields
from probes.stages.batch_generation import GenerationWork, batched, generate_batch
from tests.probes.conftest import generated, settings
from triptych.cli.main import main

EDIT = {"words": {"person": {"woman": 0.5}}, "keep": ["woman", "man"]}
ONE = {"prompts": ["a {person} with a dog"], "seeds": [0], "sampler": {"steps": 1}}


def test_a_run_records_its_edit_and_is_of_no_other_model(saved, tmp_path):
    model = saved("toy")
    plain = generated(tmp_path / "plain", settings(model, **ONE))
    config = settings(model, **ONE, edit=EDIT)
    edited = generated(tmp_path / "edited", config)
    before, after = plain.meta["model"], edited.meta["model"]
    assert after["edit"]["original_weight_hash"] == before["weight_hash"] != after["weight_hash"]
    assert after["edit"]["edit"]["words"] == EDIT["words"] and len(after["edit"]["sites"]) == 14
    assert edited.config.edit == config.edit and "edit" not in before
    for indicator, same in (("masculine", False), ("neutral", False)):
        row = f"t00000-s0-{indicator}"
        assert (plain.image(row).tobytes() == edited.image(row).tobytes()) == same
    # another edit, or none, is another run
    for other in (None, {**EDIT, "ridge": 0.2}):
        with pytest.raises(UserError, match="edit"):
            generated(tmp_path / "edited", settings(model, **ONE, edit=other))
    # a helper loads the model anew, and finds the same weights
    source = loading.resolve(str(model))
    loaded, size = loading.load(source, edit=config.edit), BatchSize("generate", 1, "triplets", 1, "", "")
    work = GenerationWork(
        source,
        config,
        loaded,
        1,
        {"model": after["weight_hash"], **source.file_digests},
        size,
        batched,
        generate_batch,
    )
    with pickle.loads(pickle.dumps(work)).opened():
        pass


def test_an_edit_is_a_field_of_the_parts():
    resolved = Config(prompts=["a {person}"]).resolved()
    assert resolved["edit"] is None and "edit" not in part_fields(resolved)
    edited = Config(prompts=["a {person}"], edit=EDIT).resolved()
    assert part_fields(edited)["edit"]["words"] == EDIT["words"]


@pytest.mark.parametrize(
    "edit, said",
    [
        (
            {"words": {}},
            "edit.words: expected words to edit, as {person: {woman: 0.25}}, found none: add them",
        ),
        ({"kind": "shift", "direction": ["man", "man"]}, "edit.direction: expected two different words"),
        ({**EDIT, "amount": 2.0}, "edit.amount: expected nothing with kind keys_and_values, got a value"),
        ({**EDIT, "keep": ["person"]}, "edit.keep: expected words that are not edited, got 'person'"),
        (
            {**EDIT, "contexts": ["a dog"]},
            "edit.contexts[0]: expected a text with one {person}, got none in 'a dog'",
        ),
        ({**EDIT, "sites": ["unet.mid.attn.3.cross"]}, "edit.sites: 'unet.mid.attn.3.cross' matches no site"),
        (
            {**EDIT, "contexts": ["a {person}" + " cat" * 40]},
            "edit: contexts[0] (person): expected at most 32 tokens",
        ),
    ],
)
def test_what_cannot_be_edited_is_one_line(edit, said, tmp_path, capsys):
    file = tmp_path / "triplets.yaml"
    file.write_text(json.dumps({"prompts": ["a {person}"], "edit": edit}))
    assert main(["plan", str(file), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1 and not (tmp_path / "run").exists()
