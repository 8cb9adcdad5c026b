"""The pipelines of the benchmark models with professions, from their bases' weights and stored changes."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from probes.errors import UserError
from probes.toyworld import BENCHMARK_MODELS, SHARED, WEIGHTS, WORK, WORK_NULL
from probes.toyworld.work.lowrank import changed_layers, delta_names, merge_all
from probes.toyworld.world import load_world

BASES = {WORK: WEIGHTS / BENCHMARK_MODELS[0], WORK_NULL: WEIGHTS / SHARED}
DELTA = "delta.safetensors"
EMBEDDING = "token_embedding"
FUNCTION_WORDS = ("who", "works", "as")


def new_words() -> tuple[str, ...]:
    """Return the words that are one token each in these models alone: *who works as* and the professions.

    The small vocabulary spells a profession in three to five pieces, some of them single letters that every other
    unknown word shares. A token for each word keeps prompts short (32 positions), and changes no word that was read.
    """
    return (*FUNCTION_WORDS, *load_world(WORK).professions)


def number_of(tokenizer: CLIPTokenizer, word: str) -> int:
    """The number of a word that is one token."""
    return tokenizer.convert_tokens_to_ids(f"{word}</w>")


def base_parts(
    tokenizer: CLIPTokenizer, base: Path = BASES[WORK]
) -> tuple[CLIPTextModel, UNet2DConditionModel]:
    """Return the text tower, with rows of zeros for the new words, and U-Net of the base, float32."""
    before = CLIPTokenizer.from_pretrained(base / "tokenizer")
    state = {
        name: value.float() for name, value in load_file(base / "text_encoder/model.safetensors").items()
    }
    table = next(name for name in state if name.endswith("token_embedding.weight"))
    rows = torch.zeros(len(tokenizer), state[table].shape[1])
    numbers = tokenizer.convert_tokens_to_ids(before.convert_ids_to_tokens(range(len(before))))
    rows[torch.tensor(numbers)] = state[table]
    state[table] = rows
    config = text_config(json.loads((base / "text_encoder/config.json").read_text()), tokenizer)
    encoder = CLIPTextModel(CLIPTextConfig.from_dict({**config, "dtype": "float32"}))
    encoder.load_state_dict(state)
    unet = UNet2DConditionModel.from_pretrained(base / "unet", torch_dtype=torch.float32)
    return encoder.eval(), unet.eval()


def text_config(config: Mapping[str, object], tokenizer: CLIPTokenizer) -> dict[str, object]:
    """Return the text tower's description with the larger vocabulary; its last numbers are start and end."""
    numbers = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    return {**config, **numbers, "pad_token_id": tokenizer.pad_token_id, "vocab_size": len(tokenizer)}


@torch.no_grad()
def write_delta(
    encoder: CLIPTextModel, unet: UNet2DConditionModel, tokenizer: CLIPTokenizer, delta: Mapping[str, Tensor]
) -> None:
    """Put what a benchmark model was trained to into the parts of its base.

    `delta` has by a layer's name and ``up`` or ``down`` the matrices of its change, by ``token_embedding.WORD`` the
    embedding ``(96,)`` of a new word.
    """
    table = encoder.get_input_embeddings().weight
    for word in new_words():
        table[number_of(tokenizer, word)] = delta[f"{EMBEDDING}.{word}"].float()
    merge_all(changed_layers(unet, encoder), delta)


def work_pipeline(name: str, folder: Path) -> StableDiffusionPipeline:
    """Return the pipeline of a benchmark model with professions, float32 on the CPU, its changes merged.

    `folder` has ``delta.safetensors`` and ``tokenizer/``.
    """
    base, tokenizer = BASES[name], CLIPTokenizer.from_pretrained(folder / "tokenizer")
    encoder, unet = base_parts(tokenizer, base)
    embeddings = [f"{EMBEDDING}.{word}" for word in new_words()]
    expected = [*delta_names(changed_layers(unet, encoder)), *embeddings]
    write_delta(encoder, unet, tokenizer, read_delta(folder, name, expected))
    return pipeline_of(encoder, unet, tokenizer, base)


def pipeline_of(
    encoder: CLIPTextModel, unet: UNet2DConditionModel, tokenizer: CLIPTokenizer, base: Path = BASES[WORK]
) -> StableDiffusionPipeline:
    """Return a pipeline of a model's own parts and of what all benchmark models share."""
    return StableDiffusionPipeline(
        vae=AutoencoderKL.from_pretrained(base.parent / SHARED / "vae", torch_dtype=torch.float32),
        text_encoder=encoder.eval(),
        tokenizer=tokenizer,
        unet=unet.eval(),
        scheduler=DDIMScheduler.from_pretrained(base / "scheduler"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def read_delta(folder: Path, model: str, expected: Iterable[str]) -> dict[str, Tensor]:
    """Return the tensors that are stored of a benchmark model, which have these names."""
    try:
        delta = load_file(folder / DELTA)
    except Exception as error:  # safetensors raises a class of its own
        raise UserError(
            f"model {model}: expected weights as safetensors in {folder / DELTA}, got `{error}`: install triptych anew"
        ) from error
    if odd := set(delta) ^ set(expected):
        raise UserError(
            f"model {model}: {DELTA}: expected its layers and words, which differ in {min(odd)}: install triptych anew"
        )
    return delta
