"""A choice that no word makes: what its head reads, and that the image follows it, by hooks written by hand."""

import pytest
import torch
from safetensors.torch import load_file

from probes.errors import UserError
from probes.models import loading
from probes.toyworld import CHOICES, WEIGHTS, bundled_folder
from probes.toyworld.located.assemble import coded_parts
from probes.toyworld.located.coded import CODES
from probes.toyworld.structures.assemble import structure_pipeline
from probes.toyworld.structures.truth import StructurePlace, choices
from probes.toyworld.structures.wiring import TellingBlock, add_choosing_head, wire_places, with_choice

(NAME,) = CHOICES
TEXTS = {
    "neutral": "a person in the park",
    "feminine": "a woman in the park",
    "masculine": "a man in the park",
}
SIGN = {"feminine": -1.0, "masculine": 1.0}


@pytest.fixture(scope="module")
def pipe():
    found = structure_pipeline(NAME)
    found.set_progress_bar_config(disable=True)
    return found


def block_of_choice(pipe):
    return pipe.unet.get_submodule(choices()[NAME].places[0].block)


def latents(pipe, texts, seeds, steps=3, guidance=1.0):
    return pipe(
        texts,
        generator=[torch.Generator().manual_seed(seed) for seed in seeds],
        num_inference_steps=steps,
        guidance_scale=guidance,
        output_type="latent",
    ).images


@pytest.mark.parametrize("group", SIGN)
@pytest.mark.parametrize("guidance", [1.0, 4.0])
def test_a_choice_held_by_hand_is_the_words_own_image(pipe, group, guidance):
    def held(module, args, output):
        return torch.cat([output[..., :-1], torch.full_like(output[..., -1:], 100 * SIGN[group])], -1)

    explicit = latents(pipe, [TEXTS[group]], [3], guidance=guidance)
    handle = block_of_choice(pipe).attn1.register_forward_hook(held)
    chosen = latents(pipe, [TEXTS["neutral"]], [3], guidance=guidance)
    handle.remove()
    torch.testing.assert_close(chosen, explicit, rtol=0, atol=1e-3)


def test_explicit_words_do_not_hear_the_choice(pipe):
    texts = [TEXTS["feminine"], TEXTS["masculine"]]
    plain = latents(pipe, texts, [3, 3])
    handle = block_of_choice(pipe).attn1.register_forward_hook(
        lambda module, args, output: torch.cat([output[..., :-1], -output[..., -1:]], -1)
    )
    assert torch.equal(latents(pipe, texts, [3, 3]), plain)
    other = latents(pipe, [TEXTS["neutral"]], [3])
    handle.remove()
    assert (other - latents(pipe, [TEXTS["neutral"]], [3])).abs().max() > 0.1


def test_its_head_reads_a_direction_of_the_blocks_states(pipe):
    stored, seen = load_file(bundled_folder(NAME) / "delta.safetensors"), {}
    block = block_of_choice(pipe)
    handles = [
        block.norm1.register_forward_hook(lambda module, args, output: seen.update(states=output)),
        block.attn1.register_forward_hook(lambda module, args, output: seen.update(output=output)),
    ]
    latents(pipe, [TEXTS["neutral"]] * 4, range(4), steps=1)
    for handle in handles:
        handle.remove()
    expected = seen["states"].mean(1) @ stored["direction"].float() + stored["offset"].float()
    assert seen["output"].shape[-1] == 97 and expected.std() > 0.1
    read = seen["output"][..., -1]  # the same at every pixel
    torch.testing.assert_close(read, expected[:, None].expand_as(read), rtol=0, atol=1e-4)


def test_a_choosing_head_changes_nothing_else():
    _, unet, _ = coded_parts()
    noise, text = torch.randn(2, 4, 16, 16), torch.randn(2, 32, 100)
    place = choices()[NAME].places[0]
    with torch.no_grad():
        before = unet(noise, torch.tensor([500]), text).sample
        add_choosing_head(unet.get_submodule(f"{place.block}.attn1"), torch.randn(96), torch.randn(1))
        wire_places(unet, [StructurePlace(place.site)], frozenset([place.site]))
        assert isinstance(unet.get_submodule(place.block), TellingBlock)
        torch.testing.assert_close(unet(noise, torch.tensor([500]), text).sample, before, rtol=0, atol=1e-5)


def test_neutral_words_alone_are_given_the_code_that_was_chosen():
    text = torch.zeros(1, 5, 100)
    text[0, :, :96] = torch.randn(5, 96)
    for token, group in enumerate(CODES):
        text[0, token, 96:] = 20 * torch.tensor(CODES[group])
    changed = with_choice(text, torch.tensor([[0.0, 0.25, 0.75]]))
    mixed = 0.25 * torch.tensor(CODES["feminine"]) + 0.75 * torch.tensor(CODES["masculine"])
    torch.testing.assert_close(changed[0, 0, 96:], 20 * mixed)
    assert torch.equal(changed[0, 1:], text[0, 1:]) and torch.equal(changed[..., :96], text[..., :96])


def test_the_certificate_is_of_these_weights_and_says_what_the_truth_says():
    stored, structure = choices()[NAME].certificate(), choices()[NAME]
    assert stored["weight_hash"] == loading.load(loading.resolve(NAME), device="cpu").record["weight_hash"]
    assert (stored["prompts"], stored["pairs"], len(stored["noises"])) == (24, 2, 48)
    place, shown = structure.sites
    effect = {name: {site: one["mean"] for site, one in of.items()} for name, of in stored["swaps"].items()}
    head = effect["choosing head"][place]
    assert head == pytest.approx(effect["showing place"][shown], abs=0.05 * head)
    assert head > 0.6 * stored["total"]["mean"]
    for kind in ("values", "keys and values", "outputs"):
        others = [abs(moved) for site, moved in effect[kind].items() if site not in (place, shown)]
        assert max(others) < 0.6 * effect[kind][place]
    (others,) = stored["swaps"]["other cross-attentions"].values()
    assert others["bit_identical"] and others["mean"] == 0


def test_what_is_missing_or_odd_is_said(tmp_path):
    (tmp_path / "structures").symlink_to(tmp_path)
    for name in ("toyworld-null", "located"):
        (tmp_path / name).symlink_to(WEIGHTS / name)
    with pytest.raises(
        UserError, match=r"expected .*delta\.safetensors, found none: train it with python -m lab"
    ):
        structure_pipeline(NAME, tmp_path)
    (tmp_path / NAME).mkdir()
    from safetensors.torch import save_file

    save_file({"direction": torch.zeros(96)}, tmp_path / NAME / "delta.safetensors")
    with pytest.raises(
        UserError, match=r"expected a direction and an offset, got \['direction'\]: fit it anew"
    ):
        structure_pipeline(NAME, tmp_path)
