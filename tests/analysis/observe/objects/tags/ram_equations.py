"""RAM's equations in NumPy, and the names and shapes of the weights in its published checkpoint.

Written from Liu et al. 2021 (Swin Transformer, section 3), Liu et al. 2021 (Query2Label), Zhang et al. 2023 (RAM) and
the published package's settings; nothing here calls torch, timm or the code under test.
"""

import itertools

import numpy as np
from scipy.special import erf

CAPTION_TOKENS = 30524  # BERT's vocabulary and two marks


def normed(x, weights, name, eps):
    x = x - x.mean(-1, keepdims=True)
    return (
        x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weights[f"{name}.weight"]
        + weights[f"{name}.bias"]
    )


def linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)


def gelu(x):
    return x * (1 + erf(x / np.sqrt(2))) / 2


def attention(query, key, value, heads, bias=0.0):
    """Each head: softmax(q kᵀ / √d + bias) v; ``(n, c)`` of queries ``(n, c)`` and keys, values ``(m, c)``."""
    depth, mixed = query.shape[-1] // heads, []
    for head in range(heads):
        some = slice(head * depth, (head + 1) * depth)
        score = query[:, some] @ key[:, some].T / np.sqrt(depth) + (bias[head] if np.ndim(bias) else bias)
        score = np.exp(score - score.max(1, keepdims=True))
        mixed.append(score / score.sum(1, keepdims=True) @ value[:, some])
    return np.concatenate(mixed, 1)


def windows(x, weights, name, heads, window, shift):
    """Self-attention within windows of a grid ``(h, w, c)``, displaced by `shift` with wrap-around."""
    height, width, _ = x.shape
    mixed = np.empty_like(x)
    offsets = np.array(list(itertools.product(range(window), range(window))))
    differences = offsets[:, None] - offsets[None] + window - 1
    bias = weights[f"{name}.relative_position_bias_table"][differences @ [2 * window - 1, 1]].transpose(
        2, 0, 1
    )
    for top, left in itertools.product(range(0, height, window), range(0, width, window)):
        places = offsets + np.array([top + shift, left + shift])
        wrapped = places >= [
            height,
            width,
        ]  # past an edge: from the other side of the image, and not to be mixed
        apart = (wrapped[:, None] != wrapped[None]).any(-1)
        rows, columns = (places % [height, width]).T
        query, key, value = np.split(linear(x[rows, columns], weights, f"{name}.qkv"), 3, axis=1)
        mixed[rows, columns] = attention(query, key, value, heads, bias + np.where(apart, -100.0, 0.0))
    return linear(mixed, weights, f"{name}.proj")


def swin(image, weights, settings):
    """Image ``(3, s, s)`` to the mean of all tokens and the tokens: ``(1 + tokens, c)``."""
    patch, name = settings["patch_size"], "visual_encoder"
    side = image.shape[1] // patch
    cut = image.reshape(3, side, patch, side, patch).transpose(1, 3, 0, 2, 4).reshape(side, side, -1)
    kernel = weights[f"{name}.patch_embed.proj.weight"]
    x = cut @ kernel.reshape(len(kernel), -1).T + weights[f"{name}.patch_embed.proj.bias"]
    x = normed(x, weights, f"{name}.patch_embed.norm", 1e-5)
    for stage, (depth, heads) in enumerate(zip(settings["depths"], settings["num_heads"])):
        window = min(settings["window_size"], x.shape[0])
        for number in range(depth):
            block = f"{name}.layers.{stage}.blocks.{number}"
            shift = window // 2 if number % 2 and x.shape[0] > window else 0
            inner = normed(x, weights, f"{block}.norm1", 1e-5)
            x = x + windows(inner, weights, f"{block}.attn", heads, window, shift)
            inner = gelu(linear(normed(x, weights, f"{block}.norm2", 1e-5), weights, f"{block}.mlp.fc1"))
            x = x + linear(inner, weights, f"{block}.mlp.fc2")
        if stage + 1 < len(settings["depths"]):
            merge = f"{name}.layers.{stage}.downsample"
            four = [x[row::2, column::2] for column in (0, 1) for row in (0, 1)]
            x = linear(
                normed(np.concatenate(four, -1), weights, f"{merge}.norm", 1e-5),
                weights,
                f"{merge}.reduction",
            )
    x = normed(x, weights, f"{name}.norm", 1e-5).reshape(-1, x.shape[-1])
    return np.concatenate([x.mean(0, keepdims=True), x])


def logits(image, weights, settings):
    """Logits ``(tags,)`` of one image ``(3, s, s)``."""
    tokens = linear(swin(image, weights, settings), weights, "image_proj")
    tags = np.maximum(linear(weights["label_embed"], weights, "wordvec_proj"), 0)
    for number in range(settings["layers"]):
        layer = f"tagging_head.encoder.layer.{number}"
        asked = f"{layer}.crossattention.self"
        seen = attention(
            linear(tags, weights, f"{asked}.query"),
            linear(tokens, weights, f"{asked}.key"),
            linear(tokens, weights, f"{asked}.value"),
            settings["attention_heads"],
        )
        after = f"{layer}.crossattention.output"
        tags = normed(linear(seen, weights, f"{after}.dense") + tags, weights, f"{after}.LayerNorm", 1e-12)
        inner = gelu(linear(tags, weights, f"{layer}.intermediate.dense"))
        inner = linear(inner, weights, f"{layer}.output.dense")
        tags = normed(inner + tags, weights, f"{layer}.output.LayerNorm", 1e-12)
    return linear(tags, weights, "fc")[:, 0]


def _linear(name, out, width, bias=True):
    return {f"{name}.weight": (out, width), **({f"{name}.bias": (out,)} if bias else {})}


def _norm(name, width):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def tagger_layout(settings):
    """Name and shape of each weight that tagging needs, as the published checkpoint has them."""
    width, window, side = settings["embed_dim"], settings["window_size"], settings["image_size"]
    patch, labels, hidden = settings["patch_size"], settings["label_width"], settings["hidden_size"]
    name, shapes = "visual_encoder", {}
    shapes |= {
        f"{name}.patch_embed.proj.weight": (width, 3, patch, patch),
        f"{name}.patch_embed.proj.bias": (width,),
    }
    shapes |= _norm(f"{name}.patch_embed.norm", width)
    for stage, (depth, heads) in enumerate(zip(settings["depths"], settings["num_heads"])):
        reach = 2 * min(window, side // patch // 2**stage) - 1
        for block in (f"{name}.layers.{stage}.blocks.{number}" for number in range(depth)):
            shapes |= {f"{block}.attn.relative_position_bias_table": (reach**2, heads)}
            shapes |= _norm(f"{block}.norm1", width) | _norm(f"{block}.norm2", width)
            shapes |= _linear(f"{block}.attn.qkv", 3 * width, width) | _linear(
                f"{block}.attn.proj", width, width
            )
            shapes |= _linear(f"{block}.mlp.fc1", 4 * width, width) | _linear(
                f"{block}.mlp.fc2", width, 4 * width
            )
        if stage + 1 < len(settings["depths"]):
            merge = f"{name}.layers.{stage}.downsample"
            shapes |= _norm(f"{merge}.norm", 4 * width)
            shapes |= _linear(f"{merge}.reduction", 2 * width, 4 * width, bias=False)
            width *= 2
    shapes |= _norm(f"{name}.norm", width) | _linear("image_proj", labels, width)
    shapes |= {"label_embed": (settings["tags"], labels)}
    shapes |= _linear("wordvec_proj", hidden, labels) | _linear("fc", 1, hidden)
    for number in range(settings["layers"]):
        layer = f"tagging_head.encoder.layer.{number}"
        shapes |= _bert_attention(f"{layer}.crossattention", hidden, labels)
        shapes |= _bert_output(layer, hidden, settings["intermediate_size"])
    return shapes


def _bert_attention(name, hidden, source):
    shapes = _linear(f"{name}.self.query", hidden, hidden)
    shapes |= _linear(f"{name}.self.key", hidden, source) | _linear(f"{name}.self.value", hidden, source)
    return (
        shapes | _linear(f"{name}.output.dense", hidden, hidden) | _norm(f"{name}.output.LayerNorm", hidden)
    )


def _bert_output(layer, hidden, inner):
    shapes = _linear(f"{layer}.intermediate.dense", inner, hidden) | _linear(
        f"{layer}.output.dense", hidden, inner
    )
    return shapes | _norm(f"{layer}.output.LayerNorm", hidden)


def other_layout(settings):
    """Name and shape of what the published checkpoint holds besides: two models of captions, masks and indices."""
    hidden, shapes = 768, {}
    for model, source in (("tag_encoder", 512), ("text_decoder.bert", hidden)):
        shapes[f"{model}.embeddings.position_ids"] = (1, 512)
        shapes[f"{model}.embeddings.word_embeddings.weight"] = (CAPTION_TOKENS, hidden)
        shapes[f"{model}.embeddings.position_embeddings.weight"] = (512, hidden)
        shapes |= _norm(f"{model}.embeddings.LayerNorm", hidden)
        for layer in (f"{model}.encoder.layer.{number}" for number in range(12)):
            shapes |= _bert_attention(f"{layer}.attention", hidden, hidden)
            shapes |= _bert_attention(f"{layer}.crossattention", hidden, source)
            shapes |= _bert_output(layer, hidden, 3072)
    head = "text_decoder.cls.predictions"
    shapes |= _linear(f"{head}.transform.dense", hidden, hidden) | _norm(
        f"{head}.transform.LayerNorm", hidden
    )
    shapes |= _linear(f"{head}.decoder", CAPTION_TOKENS, hidden) | {f"{head}.bias": (CAPTION_TOKENS,)}
    window = settings["window_size"]
    for stage, depth in enumerate(settings["depths"]):
        side = settings["image_size"] // settings["patch_size"] // 2**stage
        area = min(window, side) ** 2
        for number in range(depth):
            block = f"visual_encoder.layers.{stage}.blocks.{number}"
            shapes[f"{block}.attn.relative_position_index"] = (area, area)
            if number % 2 and side > window:
                shapes[f"{block}.attn_mask"] = ((side // window) ** 2, area, area)
    return shapes
