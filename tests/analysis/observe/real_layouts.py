"""Checkpoints shaped and named like the published ones, with random weights, which are not to be had offline."""

import torch

from analysis.observe.objects.models import grounding_dino, segment_anything
from tests.analysis.observe.tiny_models import save_text_encoder

LIMIT = 24e9  # bytes
BERT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "vocab_size": 30522,
}


def bert_words():
    """A vocabulary of BERT's size, in which the ends of captions stand where BERT has them."""
    words = [f"[unused{number}]" for number in range(30522 - 7)]
    words[:8] = ["dog", "cat", "umbrella", "person", "woman", "a", "with", "an"]
    return words


def publish(folder, name):
    """Files as they are downloaded: groundingdino_swint_ogc.pth, sam_vit_h_4b8939.pth, bert-base-uncased/."""
    encoder = save_text_encoder(folder / "bert-base-uncased", bert_words(), **BERT)
    detector, segmenter = folder / "groundingdino_swint_ogc.pth", folder / name
    torch.manual_seed(0)
    tokenizer, config = grounding_dino.text_encoder(str(encoder))
    model = grounding_dino.build(grounding_dino.description(detector), tokenizer, config)
    with torch.no_grad():  # else every token of every box has a score of 1, so that none is the box's own
        model.transformer.decoder.norm.weight.mul_(0.05)
    weights = {f"module.{name}": value for name, value in model.state_dict().items()}
    # what the published file holds besides: of its training, and of the transformers of its time
    weights["module.label_enc.weight"] = torch.zeros(2000, 256)
    weights["module.bert.embeddings.position_ids"] = torch.arange(512)[None]
    torch.save({"model": weights}, detector)
    torch.save(segment_anything.build(segment_anything.description(segmenter)).state_dict(), segmenter)
    return {"detector": str(detector), "segmenter": str(segmenter), "text_encoder": str(encoder)}
