"""The text that a pipeline gives its tokenizers for a prompt: the prompt in its template. Imports no torch.

Some templates hold a system prompt, which says what to make of the prompt; another may take its place.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

from hooks.architectures.layout import Layout
from hooks.errors import HookError
from hooks.prompt.spans import Span

_MARK = "\x00"  # stands for the prompt in a template that is asked for
NOWHERE: Span = (0, 0)
SYSTEM_PROMPTS = ("instruction", "system prompt", "format")  # templates that hold one which can be set


@dataclass(frozen=True)
class Template:
    """What a pipeline puts around a prompt.

    `plain`: the prompt is put into lower case, without blanks at its ends; `spared` tokens of the template do not count
    against the most that the pipeline takes; `vectors` says what stands for each placeholder of a textual inversion of
    several vectors, as `vectors_of` gives it. A system prompt is set by `arguments` of the pipeline's call, or by
    `attributes` of the pipeline.
    """

    before: str = ""
    after: str = ""
    plain: bool = False
    spared: int = 0
    vectors: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def written(self, prompt: str) -> tuple[str, list[Span]]:
        """The whole text, and for each of its characters those of the prompt that it stands for.

        >>> Template("say ", "!", plain=True).written(" Hi ")
        ('say hi!', [(0, 0), (0, 0), (0, 0), (0, 0), (1, 2), (2, 3), (0, 0)])
        """
        text, spans = prompt, [(index, index + 1) for index in range(len(prompt))]
        for token, vectors in self.vectors.items():
            for match in reversed([*re.finditer(rf"{re.escape(token)}(?!_\d)", text)]):
                start, end = match.span()
                text = text[:start] + vectors + text[end:]
                spans[start:end] = [(spans[start][0], spans[end - 1][1])] * len(vectors)
        if self.plain:
            spans = [span for letter, span in zip(text, spans) for _ in letter.lower()]
            # letter by letter: some become two, and some others at the end of a word
            each, text = "".join(letter.lower() for letter in text), text.lower()
            text = (text if len(text) == len(each) else each).rstrip()
            spans = spans[len(text) - len(text.lstrip()) : len(text)]
            text = text.lstrip()
        spans = [NOWHERE] * len(self.before) + spans + [NOWHERE] * len(self.after)
        return f"{self.before}{text}{self.after}", spans


@dataclass(eq=False)
class PromptTokenizer:
    """A tokenizer as a pipeline uses it: of prompts, which it puts into their template, cut at the pipeline's length.

    Token ids are those of the whole text; spans count in the prompt, and are empty for tokens of the template.
    """

    tokenizer: Any
    template: Template
    model_max_length: int
    layout: Layout | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.tokenizer, name)

    def __call__(self, texts: str | Sequence[str], **options: Any) -> Mapping[str, Any]:
        """As the tokenizer itself, of a list of prompts or of one."""
        if isinstance(texts, str):
            return self.tokenizer(self.template.written(texts)[0], **options)
        written = [self.template.written(text) for text in texts]
        encoded = self.tokenizer([text for text, _ in written], **options)
        if "offset_mapping" in encoded:
            encoded["offset_mapping"] = [
                [_joined(spans[start:end]) for start, end in tokens]
                for tokens, (_, spans) in zip(encoded["offset_mapping"], written)
            ]
        return encoded


def _joined(spans: Sequence[Span]) -> Span:
    """The characters from the first to the last of some spans, empty ones left out."""
    spans = [span for span in spans if span != NOWHERE]
    return (spans[0][0], spans[-1][1]) if spans else NOWHERE


def vectors_of(tokenizer: Any) -> dict[str, str]:
    """Placeholders of textual inversions of several vectors, and the tokens that diffusers puts in their places."""
    added, result = getattr(tokenizer, "added_tokens_encoder", {}), {}
    for token in added:
        names = [token]
        while (name := f"{token}_{len(names)}") in added:
            names.append(name)
        if len(names) > 1:
            result[token] = " ".join(names)
    return result


def with_vectors(tokenizer: Any) -> Any:
    """A tokenizer that reads placeholders of several vectors as diffusers spells them; itself where there are none."""
    if isinstance(tokenizer, PromptTokenizer) or not (vectors := vectors_of(tokenizer)):
        return tokenizer
    return PromptTokenizer(tokenizer, Template(vectors=vectors), tokenizer.model_max_length)


def prompt_tokenizer(layout: Layout | None, index: int, tokenizer: Any, system: str | None = None) -> Any:
    """A pipeline's tokenizer of this number as it uses it, with another system prompt where one is given.

    Itself where it reads prompts as they are. Refuses one without a template of a conversation where the pipeline needs
    it.
    """
    template = _template(layout, tokenizer, system)
    length = layout.lengths[index] + template.spared if layout.lengths else tokenizer.model_max_length
    if (vectors := vectors_of(tokenizer)) and hasattr(layout.pipeline_class(), "maybe_convert_prompt"):
        template = replace(template, vectors=vectors)
    if template == Template() and length >= tokenizer.model_max_length:
        return tokenizer
    return PromptTokenizer(tokenizer, template, length, layout)


def prompt_tokenizers(layout: Layout, tokenizers: Sequence[Any]) -> list[Any]:
    """The tokenizers of a pipeline as it uses them (`prompt_tokenizer`).

    Refuses, of two whose encoders' states lie side by side, a word of a textual inversion in one alone.
    """
    if not layout.lengths:  # of a U-Net
        added = [{*one.get_added_vocab()} - {*one.all_special_tokens} for one in tokenizers]
        if alone := sorted(set.union(*added) - set.intersection(*added)):
            raise HookError(
                f"expected the same added words in {' and '.join(one.name for one in layout.tokenizers)}, but got "
                f"{alone[0]!r:.40} in one alone: load the textual inversion into both"
            )
    return [prompt_tokenizer(layout, index, one) for index, one in enumerate(tokenizers)]


def with_system_prompt(tokenizer: Any, text: str | None) -> Any:
    """A tokenizer of `prompt_tokenizers` with another system prompt; itself where it is None."""
    if text is None:
        return tokenizer
    return prompt_tokenizer(
        getattr(tokenizer, "layout", None), 0, getattr(tokenizer, "tokenizer", None), text
    )


@contextmanager
def given_system_prompt(pipe: Any, layout: Layout, text: str | None) -> Iterator[dict[str, Any]]:
    """Give a pipeline a system prompt for its calls inside the block; None leaves it its own.

    Yields arguments for the pipeline's call; refuses a pipeline that has no system prompt, or none that can be set.
    """
    template = Template() if text is None else _template(layout, pipe.tokenizer, text)
    before = {name: getattr(pipe, name) for name in template.attributes}
    try:
        vars(pipe).update(template.attributes)
        yield dict(template.arguments)
    finally:
        vars(pipe).update(before)


@cache
def _bare(layout_pipeline: Any) -> Any:
    """A pipeline without components, which states its template."""
    names = list(inspect.signature(layout_pipeline.__init__).parameters)[1:]
    return layout_pipeline(**dict.fromkeys(names))


def _template(layout: Layout | None, tokenizer: Any, system: str | None) -> Template:
    """A pipeline's template, with another system prompt where one is given."""
    if system is not None and (layout is None or layout.template not in SYSTEM_PROMPTS):
        from hooks.architectures.transformer_rows import ROWS

        having = sorted(row.name for row in ROWS if row.layout.template in SYSTEM_PROMPTS)
        raise HookError(
            f"expected a model whose system prompt can be set ({', '.join(having)}), got "
            f"{layout.pipeline if layout else 'one without'}: take `system` out"
        )
    if layout is None or not layout.template:
        return Template()
    if layout.template == "lower case":
        return Template(plain=True)
    kind = layout.pipeline_class()
    if layout.template == "conversation":
        return _conversation(kind, layout.tokenizers[0].name, tokenizer)
    if (
        layout.template == "instruction"
    ):  # Sana's; the first token and the last 299, as many as the prompt may have
        own = inspect.signature(kind.__call__).parameters["complex_human_instruction"].default
        lines = own if system is None else [system]
        before, arguments = "\n".join(lines), {"complex_human_instruction": lines}
        return Template(before, plain=True, spared=len(tokenizer.encode(before)) - 2, arguments=arguments)
    bare = _bare(kind)
    if layout.template == "system prompt":
        own = bare.system_prompt if system is None else system
        return Template(before=f"{own} <Prompt Start> ", arguments={"system_prompt": own})
    # Qwen-Image's, of which it drops the tokens of all that stands before the prompt
    before, after = bare.prompt_template_encode.split("{}")
    if system is None:
        return Template(before, after, spared=bare.prompt_template_encode_start_idx)
    start, _, rest = before.partition("system\n")
    before = f"{start}system\n{system}{rest[rest.index('<|im_end|>') :]}"
    spared = len(tokenizer.encode(before, add_special_tokens=False))
    whole = "{}".join(part.replace("{", "{{").replace("}", "}}") for part in (before, after))
    attributes = {"prompt_template_encode": whole, "prompt_template_encode_start_idx": spared}
    return Template(before, after, spared=spared, attributes=attributes)


def _conversation(kind: Any, name: str, tokenizer: Any) -> Template:
    """The template of a conversation; `name` is the tokenizer's, for errors."""
    spared = 0
    try:
        if hasattr(kind, "_get_messages"):  # Ovis-Image's: a system prompt within the user's turn
            bare = _bare(kind)
            own = SimpleNamespace(tokenizer=tokenizer, system_prompt=bare.system_prompt)
            (whole,), spared = kind._get_messages(own, _MARK), bare.user_prompt_begin_id
        else:
            messages = [{"role": "user", "content": _MARK}]
            whole = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=True
            )
    except ValueError as error:
        raise HookError(f"{name}: expected a chat_template, but got none: add it") from error
    before, _, after = whole.partition(_MARK)
    return Template(before, after, spared=spared)
