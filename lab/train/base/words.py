"""A further indicator word for benchmark models that are already taught: textual inversion of one embedding.

A word of :file:`world.yaml` that the tokenizer still spells in pieces becomes a token of its own, and its embedding
alone is trained, by the denoiser's own loss, on captions in which it stands for another word of its group (Gal et al.
2023, "An image is worth one word"). Nothing else of a benchmark model changes: an image drawn from any other caption
stays what it was.
"""

from collections.abc import Sequence

import torch
from diffusers import UNet2DConditionModel
from transformers import CLIPTextModel, CLIPTokenizer

from lab.train.base.captions import article
from lab.train.base.loop import Budget, Log, MovingAverage, train_loop
from lab.train.base.unet import Lots, quick_attention, velocity_loss
from probes.toyworld.world import World, group_of_words, token_id


def unknown_words(tokenizer: CLIPTokenizer) -> list[str]:
    """Indicator words of the world that the tokenizer spells in pieces."""
    return [word for word in group_of_words() if len(tokenizer.tokenize(word)) > 1]


def add_rows(
    weight: torch.Tensor, before: CLIPTokenizer, after: CLIPTokenizer, words: Sequence[str]
) -> torch.Tensor:
    """Embeddings ``(len(after), width)`` for the longer vocabulary, those that are there at their new numbers.

    A new word starts as the mean of the other words of its group and number, a piece of it as the mean of its parts.
    """
    rows = torch.zeros(len(after), weight.shape[1], dtype=weight.dtype)
    numbers = after.convert_tokens_to_ids(before.convert_ids_to_tokens(range(len(before))))
    rows[torch.tensor(numbers)] = weight
    for word in words:
        pieces = before.tokenize(word)
        for start in range(len(pieces) - 2, 0, -1):
            joined = after.convert_tokens_to_ids(
                ["".join(pieces[start:]), pieces[start], "".join(pieces[start + 1 :])]
            )
            rows[joined[0]] = rows[joined[1:]].mean(0)
        rows[token_id(after, word)] = torch.stack(
            [rows[token_id(after, w)] for w in peers(word, words)]
        ).mean(0)
    return rows


def peers(word: str, new: Sequence[str] = ()) -> list[str]:
    """The words that mean the same as a word, of the same number, but for those that are new."""
    known = group_of_words()
    return [other for other, kind in known.items() if kind == known[word] and other not in new]


def with_word(caption: str, word: str, new: Sequence[str], world: World) -> str | None:
    """The caption with a word in place of a peer of it, the article right; None where no peer stands in it.

    >>> from probes.toyworld.world import load_world
    >>> with_word("a photo of an individual in a hat", "figure", ["figure"], load_world())
    'a photo of a figure in a hat'
    """
    parts = caption.split(" ")
    for place, each in enumerate(parts):
        if each == word:
            return caption
        if each in peers(word, new):
            parts[place] = word
            if place and parts[place - 1] in ("a", "an"):
                parts[place - 1] = article(word)
            return " ".join(parts)
    return None


class OneRow(torch.nn.Module):
    """Denoiser and text encoder in which only the embedding of single tokens can learn.

    The rows are a parameter of their own, put in the table's place for as long as the module is called.
    """

    def __init__(self, unet: UNet2DConditionModel, encoder: CLIPTextModel, numbers: Sequence[int]):
        super().__init__()
        self.numbers = torch.tensor(list(numbers))
        table = encoder.get_input_embeddings().weight
        self.rows = torch.nn.Parameter(table.detach()[self.numbers].clone())
        self.models = (unet.requires_grad_(False), encoder.requires_grad_(False))  # a tuple: not submodules

    def states(self, tokens: torch.Tensor) -> torch.Tensor:
        """Text states of the tokens, ``(n, 32, width)``, with the rows as they are now."""
        _, encoder = self.models
        table = encoder.get_input_embeddings().weight.index_copy(
            0, self.numbers.to(self.rows.device), self.rows
        )
        name = next(name for name, _ in encoder.named_parameters() if name.endswith("token_embedding.weight"))
        return torch.func.functional_call(encoder, {name: table}, (tokens,)).last_hidden_state

    @torch.no_grad()
    def write(self) -> None:
        """Put the rows into the encoder's table."""
        _, encoder = self.models
        encoder.get_input_embeddings().weight[self.numbers] = self.rows.to(encoder.dtype)


def train_words(
    unet: UNet2DConditionModel,
    encoder: CLIPTextModel,
    numbers: Sequence[int],
    latents: torch.Tensor,
    tokens: torch.Tensor,
    zones: torch.Tensor,
    budget: Budget,
    log: Log,
    *,
    batch_size: int = 48,
    learning_rate: float = 3e-3,
    decay: float = 0.98,
    device: str = "cpu",
    seed: int = 0,
    zone_weight: float = 5.0,
    time_power: float = 0.6,
) -> int:
    """Train the embeddings of single tokens on captions that hold them; the average over steps is what remains.

    The encoder's rows ``numbers`` are changed in place, nothing else.
    """
    unet.to(device, memory_format=torch.channels_last).eval()
    encoder.to(device).eval()
    rows = OneRow(unet, encoder, numbers).to(device)
    average, lots = MovingAverage(rows, decay), Lots(len(latents), batch_size, seed)

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        batch = lots.rows()
        states = rows.states(tokens[batch].to(device))
        return velocity_loss(unet, latents[batch], states, zones[batch], lots, zone_weight, time_power)

    with quick_attention(unet, device):
        steps = train_loop(rows, loss_of, budget, log, learning_rate, 0.0, average)
    average.copy_to(rows)
    rows.write()
    return steps
