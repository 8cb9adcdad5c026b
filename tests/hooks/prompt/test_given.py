"""Prompts as pipelines give them to their tokenizers, against what the tokenizers of running pipelines were given."""

import inspect

import pytest

from hooks import HookError
from hooks.architectures.transformer_rows import ROWS as KNOWN
from hooks.prompt.given import (
    PromptTokenizer,
    Template,
    prompt_tokenizers,
    replace_system_prompt,
    use_system_prompt,
)
from hooks.prompt.spans import encode, split_words, tokens_of_words
from tests.tiny_transformers import KINDS, ROWS, call_options, tiny_transformer_pipeline

PROMPT = " A non-binary Person holding an Umbrella "
SYSTEM = "Draw {every} park. With a dog: "
WORDS = ["A", "non-binary", "Person", "holding", "an", "Umbrella"]


def given_by(pipe, kind, layout, system=None):
    """The texts that a call of the pipeline gives each tokenizer, and the token ids that it makes of them."""
    names = [one.name for one in layout.tokenizers]
    seen = {name: [] for name in names}
    for name in names:
        tokenizer = getattr(pipe, name)

        class Watched(type(tokenizer)):
            calls = seen[name]

            def __call__(self, text, *args, **kwargs):
                result = super().__call__(text, *args, **kwargs)
                self.calls.append(([text] if isinstance(text, str) else list(text), kwargs, result))
                return result

        tokenizer.__class__ = Watched
    options, encoded = call_options(kind), []
    keep = pipe.text_encoder.register_forward_pre_hook(
        lambda module, args, kwargs: encoded.append(kwargs.get("input_ids")), with_kwargs=True
    )
    if "negative_prompt" in inspect.signature(pipe.__call__).parameters:
        options["negative_prompt"] = None
    unguided = {"true_cfg_scale": 1.0} if kind == "qwen-image" else {"guidance_scale": 0.0}
    with use_system_prompt(pipe, layout, system) as given:
        pipe(prompt=[PROMPT], num_inference_steps=2, output_type="latent", **{**options, **unguided}, **given)
    keep.remove()
    if kind == "longcat-image":  # which tokenizes in parts
        return {"tokenizer": ([], {}, {"input_ids": encoded[0]})}
    return {name: calls[0] for name, calls in seen.items()}


def layout_of(kind):
    return next(row.layout for row in KNOWN if row.layout.pipeline == ROWS[kind].pipeline)


SYSTEM_PROMPTS = ["sana", "sana-sprint", "qwen-image", "lumina2"]
DRAWN = ["sd3", "pixart-sigma", *SYSTEM_PROMPTS, "z-image", "auraflow", "ovis-image", "flux2-klein"]
DRAWN += ["longcat-image", "krea2", "cogview3", "cogview4", "hunyuan-dit"]


@pytest.mark.parametrize(
    ("kind", "system"), [*((kind, None) for kind in DRAWN), *((kind, SYSTEM) for kind in SYSTEM_PROMPTS)]
)
def test_texts_and_positions_are_those_of_a_running_pipeline(kind, system):
    pipe, layout = tiny_transformer_pipeline(kind), layout_of(kind)
    own = [getattr(pipe, one.name) for one in layout.tokenizers]
    made = [replace_system_prompt(one, system) for one in prompt_tokenizers(layout, own)]
    by_prompt = [encode(one, [PROMPT], "test")[0] for one in made]
    lengths = [one.model_max_length for one in made]
    spelled = [one.convert_ids_to_tokens(ids) for one, (ids, _) in zip(made, by_prompt)]
    seen = given_by(pipe, kind, layout, system)
    for index, component in enumerate(layout.tokenizers):
        texts, options, result = seen[component.name]
        ids, offsets = by_prompt[index]
        if isinstance(made[index], PromptTokenizer) and texts:
            assert [made[index].template.insert_prompt(PROMPT)[0]] == texts
            assert (SYSTEM in texts[0]) == (system is not None)
        given = result["input_ids"][0].tolist()
        assert given[: len(ids)] == ids
        if kind not in ("qwen-image", "longcat-image"):  # which cut behind the encoder
            assert options["max_length"] == lengths[index]
        # each word's tokens spell the word
        positions = tokens_of_words(offsets, [span for _, span in split_words(PROMPT)])
        assert [word for word, _ in split_words(PROMPT)] == WORDS
        for word, where in zip(WORDS, positions):
            text = "".join(spelled[index][p] for p in where)
            for mark in ("▁", "Ġ", "</w>", "##"):
                text = text.replace(mark, "")
            assert text.lower() == word.lower()


@pytest.mark.parametrize("kind", ["sd3", "ovis-image"])
def test_models_without_a_system_prompt_that_can_be_set(kind):
    pipe, layout = tiny_transformer_pipeline(kind), layout_of(kind)
    having = r"\(Lumina-Image 2, Qwen-Image, Sana, Sana-Sprint\)"
    message = rf"whose system prompt can be set {having}, got \w+.*: take `system` out"
    with pytest.raises(HookError, match=message), use_system_prompt(pipe, layout, SYSTEM):
        pass
    tokenizers = prompt_tokenizers(layout, [getattr(pipe, one.name) for one in layout.tokenizers])
    with pytest.raises(HookError, match=message):
        replace_system_prompt(tokenizers[0], SYSTEM)


def test_every_layout_of_the_tests_is_known():
    assert {ROWS[kind].pipeline for kind in KINDS} == {row.layout.pipeline for row in KNOWN}


def test_letters_that_grow_in_lower_case():
    text, spans = Template("a: ", lower=True).insert_prompt("İd Σ")
    assert text.startswith("a: i") and len(text) == len(spans)
    assert ["İd Σ"[a:b] for a, b in spans] == ["", "", "", "İ", "İ", "d", " ", "Σ"]
