"""Word maps of transformers against an eager softmax over the final queries and keys that torch was given."""

import numpy as np
import pytest
import torch

from hooks import HookError, Probe
from tests.hooks.conftest import all_hooks
from tests.hooks.transformers import PROMPTS, STEPS, draw, heard, probabilities, rows_of_prompts, streams
from tests.tiny_transformers import tiny_transformer_pipeline

GRIDS = {"sana": (16, 16), "sana-sprint": (16, 16)}


def expected_maps(pipe, kind, probe, entries, reading, prompts=PROMPTS):
    """Sum over calls of the mean over heads and layers, shape (rows, columns, h, w), and of the mass of all text."""
    grid, rows = GRIDS.get(kind, (8, 8)), len(prompts)
    pixels, width = grid[0] * grid[1], max(map(len, probe.maps.columns))
    total, text_mass = torch.zeros(rows, width, pixels), torch.zeros(rows, pixels)
    for address in probe.maps.layers:
        calls = entries[address]
        assert len(calls) % STEPS == 0  # the prompts' call comes first
        for entry in calls[:: len(calls) // STEPS]:
            paid = rows_of_prompts(pipe, probabilities(entry), rows)
            output = rows_of_prompts(pipe, entry["result"], rows)
            if (
                reading == "output"
            ):  # of the model's own kernel: a softmax of large products shows its last digits
                own = paid @ rows_of_prompts(pipe, entry["value"], rows)
                torch.testing.assert_close(output, own, rtol=1e-4, atol=1e-5)
            output = output.transpose(1, 2).flatten(2)
            for row, (image, text) in enumerate(streams(pipe, entry, pixels, prompts)):
                to_text, columns = paid[row, :, image, text], probe.maps.columns[row]
                mass = to_text.sum(-1)
                text_mass[row] += mass.mean(0) / len(probe.maps.layers)
                if reading == "output":
                    products = output[row, image] @ output[row, text][list(columns)].T
                    found = products.softmax(-1).T
                else:
                    found = to_text[..., list(columns)]
                    found = found / mass[..., None] if reading == "share" else found
                    found = found.mean(0).T
                total[row, : len(columns)] += found / len(probe.maps.layers)
    return total.unflatten(-1, grid).numpy(), text_mass.unflatten(-1, grid).numpy()


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        ("sd3", "joint-mass"),
        ("sd35", "joint-share"),
        ("flux-schnell", "output-space"),
        ("flux2-klein", "joint-mass"),
        ("longcat-image", "joint-share"),
        ("krea2", "joint-share"),
        ("pixart-sigma", "joint-mass"),
        pytest.param("sana", "joint-share", marks=pytest.mark.slow),
        ("chroma", "output-space"),
        ("qwen-image", "joint-mass"),
        ("lumina2", "joint-share"),
        ("z-image", "joint-share"),
        ("auraflow", "joint-mass"),
        pytest.param("ovis-image", "joint-mass", marks=pytest.mark.slow),
        ("sana-sprint", "joint-mass"),
        ("cogview3", "joint-mass"),
        ("hunyuan-dit", "joint-share"),
        ("cogview4", "output-space"),
        ("cogview4", "joint-mass"),
    ],
)
def test_maps_are_those_of_the_eager_softmax(dit, kind, definition, monkeypatch):
    pipe = dit(kind)
    entries = heard(pipe, lambda: draw(pipe, kind), monkeypatch)
    with Probe(pipe, word_maps=definition, prompts=PROMPTS) as probe:
        draw(pipe, kind)
    reading = {"joint-mass": "mass", "joint-share": "share", "output-space": "output"}[definition]
    values, text = expected_maps(pipe, kind, probe, entries, reading)
    np.testing.assert_allclose(probe.maps.values, values, atol=1e-6, rtol=1e-5)
    assert (probe.maps.definition, probe.maps.version) == (definition, "1")
    if reading == "output":
        assert probe.maps.text is None
        np.testing.assert_allclose(probe.maps.values.sum(1), STEPS, rtol=1e-5)
    else:
        np.testing.assert_allclose(probe.maps.text, text, atol=1e-6, rtol=1e-5)
    assert np.ptp(values[1, 0]) > 1e-5, "the map must vary over the image for this test to see it"


def test_a_word_is_paid_what_its_tokens_are_by_every_encoder(dit):
    pipe = dit("sd3")
    with Probe(pipe, word_maps=True) as probe:
        draw(pipe, "sd3")
    found = probe.word_map("umbrella", row=1)
    clip, t5 = 4 + 1, 77 + 4  # behind CLIP's start of text; T5 has none
    assert found.positions == (clip, t5)
    columns = probe.maps.columns[1]
    np.testing.assert_array_equal(
        found.values, probe.maps.heat(1)[[columns.index(clip), columns.index(t5)]].sum(0)
    )
    assert found.size == (32, 32) and found.mask().shape == (32, 32)
    np.testing.assert_array_equal(found.text_mass, probe.maps.text[1])
    words = [word for word in probe.words(1) if word.lower == "umbrella"]
    assert [word.encoder for word in words] == ["text", "text_2", "text_3"]
    alone = [probe.word_map(word, row=1) for word in words]
    assert [one.positions for one in alone] == [(clip,), (clip,), (t5,)]
    phrase = probe.word_map("in the park", row=1)
    assert len(phrase.positions) == 6
    with pytest.raises(HookError, match="'park' is no word of this prompt"):
        probe.word_map("park", row=0)
    whole = sum(probe.word_map(word, row=1).values for word in PROMPTS[1].split() if word != "a")
    whole = whole + probe.word_map("a", row=1).values
    np.testing.assert_allclose(whole, probe.maps.heat(1)[: len(columns)].sum(0), rtol=1e-5)
    assert (whole < probe.maps.text[1]).all(), "padding is read too"


def test_a_word_stands_behind_berts_start_and_in_the_second_text(dit):
    with Probe(dit("hunyuan-dit"), word_maps=True) as probe:
        draw(dit("hunyuan-dit"), "hunyuan-dit")
    assert probe.word_map("umbrella", row=1).positions == (1 + 4, 77 + 4)


def test_layers_apart_and_probes_nest(dit, monkeypatch):
    pipe = dit("flux-schnell")
    entries = heard(pipe, lambda: draw(pipe, "flux-schnell"), monkeypatch)
    with Probe(pipe, word_maps=True, layer_maps=STEPS) as outer, Probe(pipe, word_maps=True) as inner:
        images = draw(pipe, "flux-schnell")
    assert np.array_equal(images, draw(pipe, "flux-schnell"))
    np.testing.assert_array_equal(outer.maps.values, inner.maps.values)
    assert outer.maps.layers == ("dit.block.0.joint", "dit.block.1.joint")
    address = "dit.single.2.joint"
    kept = outer.layer_maps.values[address]  # (rows, bins, columns and all text, h, w)
    entry = entries[address][1]
    image, text = streams(pipe, entry, 64, PROMPTS)[1]
    paid = probabilities(entry)[1, :, image, text]  # (heads, pixels, text)
    columns = outer.maps.columns[1]
    expected = torch.cat([paid[..., list(columns)], paid.sum(-1, keepdim=True)], -1).mT.unflatten(-1, (8, 8))
    np.testing.assert_allclose(kept[1, 1], expected.mean(0).numpy(), atol=1e-6)
    word = outer.word_map("umbrella", row=1)
    place = columns.index(word.positions[0])
    np.testing.assert_allclose(word.layer(address).step(1).values, kept[1, 1, place], rtol=1e-5)


def test_all_tokens_of_a_call_that_is_interrupted(dit):
    """Which is combined as the block ends, since the planned last call never comes."""
    pipe = dit("sd3")

    def interrupt(pipe, step, timestep, kwargs):
        pipe._interrupt = True
        return kwargs

    with Probe(pipe, word_maps=True) as words, Probe(pipe, word_maps=True, map_tokens="all") as probe:
        draw(pipe, "sd3", callback_on_step_end=interrupt)
    tokens = len(probe.maps.columns[1])
    assert probe.maps.columns == (tuple(range(tokens)),) * len(PROMPTS)
    np.testing.assert_allclose(probe.maps.values.sum(1), probe.maps.text, rtol=1e-5)
    assert probe.maps.text.max() < 1, "of one call"
    columns = words.maps.columns[1]
    kept = words.maps.heat(1)[: len(columns)]
    np.testing.assert_allclose(kept, probe.maps.heat(1)[list(columns)], rtol=1e-5)


def test_signs_beside_the_words_have_maps(dit):
    pipe = dit("sd3")
    with Probe(pipe, word_maps=True) as probe:
        draw(pipe, "sd3", ["- a dog with a ball -", "a dog"])
    first, second = probe.maps.columns
    assert [position for position in first if position < 77] == [*range(1, 8)]
    assert len(first) == 7 + 9 and len(second) == 2 + 2, (
        "of CLIP and of T5, which has a blank before each sign"
    )
    assert np.isfinite(probe.token_heat({"text": [7], "text_2": [7], "text_3": [7]}, row=0)).all()


class Unseen:
    """A processor that attends without torch's function, as kernels of other packages do."""

    _attention_backend = None

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, *args):
        query, key, value = (getattr(attn, f"to_{one}")(hidden_states) for one in "qkv")
        found = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
        return found, encoder_hidden_states


def test_a_processor_of_ones_own_is_refused():
    pipe = tiny_transformer_pipeline("flux-schnell")
    pipe.transformer.transformer_blocks[1].attn.processor = Unseen()
    message = (
        r"dit\.block\.1\.joint: .* got Unseen, which may weigh tokens otherwise: load the pipeline again"
    )
    with pytest.raises(HookError, match=message), Probe(pipe, word_maps=True):
        draw(pipe, "flux-schnell")


def test_attention_that_is_not_seen_is_refused_at_its_first_run(monkeypatch):
    pipe = tiny_transformer_pipeline("flux-schnell")
    before = all_hooks(pipe)
    pipe.transformer.transformer_blocks[1].attn.processor = Unseen()
    monkeypatch.setattr(Unseen, "__module__", "diffusers")  # as one of theirs that attends so
    message = r"dit\.block\.1\.joint: its attention ran without torch's scaled_dot_product_attention \(Unseen, backend"
    with pytest.raises(HookError, match=message), Probe(pipe, word_maps=True):
        draw(pipe, "flux-schnell")
    assert all_hooks(pipe) == before
    assert torch.overrides._get_current_function_mode() is None
    with Probe(pipe, pairs=[(0, 1)]) as probe:
        draw(pipe, "flux-schnell")
    assert len(probe.similarity["dit.block.1.joint:cosine"].values) == STEPS, "sites need no such function"


def test_definitions_of_the_other_architecture_are_refused(dit, toy):
    with (
        pytest.raises(HookError, match="definition 'daam': takes the softmax over a U-Net's text alone"),
        Probe(dit("sd3"), word_maps="daam"),
    ):
        pass
    with (
        pytest.raises(HookError, match="definition 'joint-mass': is of transformers"),
        Probe(toy, word_maps="joint-mass"),
    ):
        pass
    with (
        pytest.raises(HookError, match="no attention to the text that the definition 'output-space' takes"),
        Probe(dit("sana"), word_maps="output-space"),
    ):
        pass


def test_a_published_models_layers_are_the_literatures():
    from hooks.architectures.registry import architecture_of

    pipe = tiny_transformer_pipeline("flux-dev", num_layers=19, num_single_layers=1)
    named = architecture_of(pipe).word_layers(pipe)
    assert named == tuple(f"dit.block.{number}.joint" for number in (18, 17, 12, 14, 11))
    pipe = tiny_transformer_pipeline("sd35", num_layers=24, dual_attention_layers=tuple(range(13)))
    named = architecture_of(pipe).word_layers(pipe)
    assert named == tuple(f"dit.block.{number}.joint" for number in (7, 9, 8, 5, 10))
