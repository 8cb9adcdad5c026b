"""The pipeline of `toyworld-skills`, from the weights of `toyworld-null` and what is stored of it."""

from collections.abc import Mapping
from pathlib import Path

from diffusers import AutoencoderKL, StableDiffusionPipeline
from torch import Tensor, nn
from transformers import CLIPTokenizer

from probes.models.pretrained import from_folder
from probes.prompts import sets
from probes.prompts.grammar.plurals import plural
from probes.prompts.paintskills import SKILLS
from probes.toyworld import SHARED, SKILLED, WEIGHTS
from probes.toyworld.skills import SET, objects
from probes.toyworld.work.assemble import base_parts, pipeline_of, read_delta, write_changes
from probes.toyworld.work.lowrank import changed_layers

NAME, BASE = SKILLED, WEIGHTS / SHARED
DELTA, TRAINED_BY = "delta.safetensors", "lab.train.skills.train"


def words() -> tuple[str, ...]:
    """Return every word of the prompts of its set, each once."""
    content = sets.read(SET)
    texts = [text for skill in SKILLS for text in content["skills"][skill]["templates"]]
    texts += [*content["counts"], *content["counts"].values(), *content["relations"].values(), "an"]
    texts += [noun for name in objects() for noun in (name, plural(name))]
    split = (word for text in texts for word in text.replace("?", " ").replace(":", " ").split())
    plain = (word.strip(",.").lower() for word in split if not word.startswith("<"))
    return tuple(dict.fromkeys(word for word in plain if word))


def decoder_layers(vae: AutoencoderKL) -> dict[str, nn.Module]:
    """Return the layers of the decoder that change, by name: every convolution and linear layer."""
    return {
        f"decoder.{name}": layer
        for name, layer in vae.decoder.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    }


def write_delta(pipe: StableDiffusionPipeline, delta: Mapping[str, Tensor]) -> None:
    """Put what the model was trained to into a pipeline of `toyworld-null` with its tokenizer.

    Parameters
    ----------
    delta : mapping of str to Tensor
        Float16; by a layer's name and ``up`` or ``down`` the matrices of its change, by ``token_embedding.WORD`` the
        embedding of a new word.

    Raises
    ------
    UserError
        The names are not those that the benchmark model has.
    """
    layers = {**changed_layers(pipe.unet, pipe.text_encoder), **decoder_layers(pipe.vae)}
    write_changes(NAME, layers, taught_words(), pipe.text_encoder, pipe.tokenizer, delta)


def taught_words(base: Path = BASE) -> tuple[str, ...]:
    """Return the words that are one token each in this benchmark model alone: those that its base spells in pieces.

    The longest prompt would otherwise take 47 tokens, of which 32 are read.
    """
    tokenizer = from_folder(CLIPTokenizer, base / "tokenizer")
    return tuple(word for word in words() if len(tokenizer.tokenize(word)) > 1)


def skills_pipeline(folder: Path, base: Path = BASE) -> StableDiffusionPipeline:
    """Return the pipeline of `toyworld-skills`, float32 on the CPU, its changes merged into the weights.

    Parameters
    ----------
    folder : pathlib.Path
        Where what it was taught is stored: ``delta.safetensors`` and ``tokenizer/``.
    base : pathlib.Path
        `toyworld-null`.

    Raises
    ------
    UserError
        It was not taught yet, or what is stored is damaged or of other layers.
    """
    tokenizer = from_folder(CLIPTokenizer, folder / "tokenizer")
    pipe = pipeline_of(*base_parts(tokenizer, base), tokenizer, base)
    write_delta(pipe, read_delta(folder / DELTA, NAME, TRAINED_BY))
    return pipe
