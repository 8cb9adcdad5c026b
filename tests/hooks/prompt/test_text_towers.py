"""Text encoders of diffusion transformers: their layers against runs by hand, and where their tokens stand."""

from __future__ import annotations

import contextlib
import inspect

import pytest
import torch
from diffusers import SanaPipeline

from hooks.architectures.site import module_at
from hooks.architectures.text_encoders import TEXT_ENCODERS, text_config, text_core, text_sites
from hooks.prompt.text import TextReader, select_runs
from tests.tiny_transformers import call_options, tiny_transformer_pipeline

PROMPTS = ["a person holding an umbrella", "a woman in a garden holding an umbrella"]
# of encoders by CLIP, T5, Gemma 2 and Qwen
KINDS = ("sd3", "flux-dev", "sana", "qwen-image", "lumina2", "z-image", "auraflow", "ovis-image", "cogview4")


def given_to(kwargs, args):
    """The text of the first call of a transformer: rows of the prompts (none are unconditional), and pooled vectors."""
    states = kwargs["encoder_hidden_states"] if "encoder_hidden_states" in kwargs else args[2]
    if isinstance(states, list):
        states = torch.nn.utils.rnn.pad_sequence(states, batch_first=True)
    return states, kwargs.get("pooled_projections")


@pytest.fixture(scope="module", params=KINDS)
def seen(request):
    """What readers saw of a call of the pipeline without guidance, beside what hooks of torch alone saw."""
    kind = request.param
    pipe = tiny_transformer_pipeline(kind)
    parts = {name: part for name, part in TEXT_ENCODERS.items() if text_core(pipe, part) is not None}
    sites = {site.address: site for site in text_sites(pipe, "transformer")}
    inside = {
        name: [s for a, s in sites.items() if a.startswith(f"{name}.layers.") and not s.layer_norm]
        for name in parts
    }
    readers = [TextReader(pipe, name, part, inside[name]) for name, part in parts.items()]
    text, calls, whole = {}, {}, {}
    with contextlib.ExitStack() as stack:
        for reader in readers:
            reader.attach(stack)
            encoder = reader.encoder

            def before(module, args, kwargs, name=reader.name):
                calls.setdefault(name, (args, kwargs))

            stack.callback(encoder.register_forward_pre_hook(before, with_kwargs=True).remove)
            for address in (f"{reader.name}.embeddings", f"{reader.name}.layers.1"):
                site = sites[address]
                keep = whole.setdefault(address, []).append
                stack.callback(site.attach_reader(pipe, keep).remove)

        def first(module, args, kwargs):
            if not text:
                text["given"] = given_to(kwargs, args)
                text["runs"] = select_runs(readers, *text["given"])

        stack.callback(pipe.transformer.register_forward_pre_hook(first, with_kwargs=True).remove)
        options = {**call_options(kind), "negative_prompt": None}
        unguided = {"true_cfg_scale": 1.0} if kind == "qwen-image" else {"guidance_scale": 0.0}
        pipe(prompt=list(PROMPTS), num_inference_steps=2, output_type="latent", **{**options, **unguided})
    return kind, pipe, text, calls, whole


def from_start(kind, pipe, ids, values):
    """Values at the tokens of each text from its first on, where the pipeline puts padding before them."""
    if kind != "cogview4":
        return values
    starts = (ids != pipe.tokenizer.pad_token_id).int().argmax(1).tolist()
    return torch.stack([row.roll(-start, 0) for row, start in zip(values, starts)])


def test_states_are_those_of_a_run_by_hand(seen):
    kind, pipe, text, calls, whole = seen
    for name, (reader, run) in text["runs"].items():
        args, kwargs = calls[name]
        with torch.no_grad():
            output = reader.encoder(*args, **{**kwargs, "output_hidden_states": True})
        by_hand = [from_start(kind, pipe, args and args[0], one) for one in output.hidden_states]
        assert len(by_hand) == len(run.states)
        for k, state in enumerate(run.states[:-1]):
            assert torch.equal(state, by_hand[k]), (name, k)
        norm = module_at(pipe, text_core(pipe, TEXT_ENCODERS[name]).norm)
        last, weight = run.states[-1], norm.weight
        if reader._ends == "eos" and hasattr(norm, "bias"):  # CLIP's layer norm
            expected = torch.nn.functional.layer_norm(last, last.shape[-1:], weight, norm.bias, norm.eps)
        else:  # root mean square (Zhang and Sennrich 2019); Gemma stores the weight less one
            eps = getattr(norm, "variance_epsilon", getattr(norm, "eps", None))
            scale = weight + 1 if type(norm).__name__.startswith("Gemma") else weight
            expected = last * (last.square().mean(-1, keepdim=True) + eps).rsqrt() * scale
        torch.testing.assert_close(run.final, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(run.normed[-1], run.final, atol=0, rtol=0)
        assert torch.equal(
            from_start(kind, pipe, args and args[0], whole[f"{name}.layers.1"][0]), run.states[2]
        )


def test_parts_of_a_layer_add_up(seen):
    """What attention and MLP add to the residual stream, in encoders that norm before, after, or both."""
    _, pipe, text, _, _ = seen
    for name, (reader, run) in text["runs"].items():
        core = text_core(pipe, TEXT_ENCODERS[name])
        for k, before in enumerate(run.states[:-1]):
            inner = {part: run.inside[f"{name}.layers.{k}.{part}"] for part in ("attn", "middle", "mlp")}
            torch.testing.assert_close(before + inner["attn"], inner["middle"])
            torch.testing.assert_close(inner["middle"] + inner["mlp"], run.states[k + 1])
            heads = run.inside[f"{name}.layers.{k}.attn.heads"]
            assert heads.ndim == 4 and heads.shape[2] == text_config(reader.encoder).num_attention_heads
            layer = module_at(pipe, f"{core.layers}.{k}")
            projected = module_at(layer, core.projection)(heads.flatten(2))
            if core.name == "Gemma 2":
                projected = layer.post_attention_layernorm(projected)
            torch.testing.assert_close(projected, inner["attn"])


def lengths(tokenizer, texts):
    return [len(tokenizer(text).input_ids) for text in texts]


def expected_places(kind, pipe, name):
    """Which token stands at each position, by the rules of each pipeline."""
    tokenizer = getattr(pipe, name.replace("text", "tokenizer"))
    if kind == "sd3":
        clip, t5 = list(range(77)), list(range(256))
        row = [-1] * 77 + t5 if name == "text_3" else clip + [-1] * 256
        return [row, row]
    if kind == "flux-dev":
        return [list(range(512))] * 2 if name == "text_2" else None
    if kind == "lumina2":
        return [list(range(256))] * 2
    if kind == "auraflow":  # padding is zeroed
        return [list(range(n)) + [-1] * (256 - n) for n in lengths(tokenizer, PROMPTS)]
    if kind == "sana":
        told = inspect.signature(SanaPipeline.__call__).parameters["complex_human_instruction"].default
        total = len(tokenizer.encode("\n".join(told))) + 300 - 2
        return [[0, *range(total - 299, total)]] * 2
    if kind == "qwen-image":
        counts = [n - 34 for n in lengths(tokenizer, map(pipe.prompt_template_encode.format, PROMPTS))]
        return [list(range(34, 34 + n)) + [-1] * (max(counts) - n) for n in counts]
    if kind == "cogview4":  # padding comes first, to a multiple of 16
        counts = lengths(tokenizer, PROMPTS)
        total = -(-max(counts) // 16) * 16
        return [[*range(n, total), *range(n)] for n in counts]
    if kind == "ovis-image":  # 28 tokens of the template are dropped, padding is zeroed
        counts = lengths(tokenizer, pipe._get_messages(PROMPTS))
        return [[*range(28, n)] + [-1] * (256 + 28 - n) for n in counts]
    assert kind == "z-image"
    counts = [
        len(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
            )
        )
        for text in PROMPTS
    ]
    return [list(range(n)) + [-1] * (max(counts) - n) for n in counts]


def test_tokens_stand_where_the_pipeline_puts_them(seen):
    kind, pipe, text, _, _ = seen
    for name, (_, run) in text["runs"].items():
        assert run is not None
        expected = expected_places(kind, pipe, name)
        assert (None if run.places is None else run.places.tolist()) == expected, name


def test_the_end_of_a_text(seen):
    """The first end-of-text token; in an encoder that reads causally the last token that is not padding."""
    kind, _, text, _, _ = seen
    for reader, run in text["runs"].values():
        ends = reader.end_of_text(run).tolist()
        eos = text_config(reader.encoder).eos_token_id
        for row, end in enumerate(ends):
            ids = run.ids[row].tolist()
            if kind in ("sana", "lumina2", "qwen-image", "z-image", "ovis-image", "cogview4"):
                assert run.mask[row].nonzero().max() == end
            else:
                assert ids.index(eos) == end
        assert len(set(ends)) == 2
