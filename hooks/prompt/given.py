"""The text that a pipeline gives its tokenizers for a prompt: the prompt in its template. Imports no torch.

Some templates hold a system prompt, which says what to make of the prompt; another may take its place.
"""

from __future__ import annotations

import copy
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
    """The text that a pipeline puts around a prompt, and the changes that it makes to the prompt itself.

    `lower`: the prompt is put into lower case, without blanks at its ends; `uncounted` tokens of the template do
    not count towards the pipeline's limit; `vectors` has the tokens for each placeholder of a textual inversion of
    several vectors (`placeholders`). A system prompt is set by `arguments` of the pipeline's call, or by
    `attributes` of the pipeline.
    """

    before: str = ""
    after: str = ""
    lower: bool = False
    uncounted: int = 0
    vectors: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def insert_prompt(self, prompt: str) -> tuple[str, list[Span]]:
        """Return a prompt's text in the template, and for each of its characters the span of the prompt it is from.

        >>> Template("say ", "!", lower=True).insert_prompt(" Hi ")
        ('say hi!', [(0, 0), (0, 0), (0, 0), (0, 0), (1, 2), (2, 3), (0, 0)])
        """
        text, spans = prompt, [(index, index + 1) for index in range(len(prompt))]
        for token, vectors in self.vectors.items():
            for match in reversed([*re.finditer(rf"{re.escape(token)}(?!_\d)", text)]):
                start, end = match.span()
                text = text[:start] + vectors + text[end:]
                spans[start:end] = [(spans[start][0], spans[end - 1][1])] * len(vectors)
        if self.lower:
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
    """A tokenizer that puts prompts into a pipeline's template, with the pipeline's limit as `model_max_length`.

    Token ids are those of the whole text; spans count in the prompt, and are empty for tokens of the template.
    """

    tokenizer: Any
    template: Template
    model_max_length: int
    layout: Layout | None = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped tokenizer; AttributeError for a private one."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.tokenizer, name)

    def __call__(self, texts: str | Sequence[str], **options: Any) -> Mapping[str, Any]:
        """Tokenize one or several prompts in the template; offsets (of several) count characters of the prompt."""
        if isinstance(texts, str):
            return self.tokenizer(self.template.insert_prompt(texts)[0], **options)
        filled = [self.template.insert_prompt(text) for text in texts]
        encoded = self.tokenizer([text for text, _ in filled], **options)
        if "offset_mapping" in encoded:
            encoded["offset_mapping"] = [
                [_covering_span(spans[start:end]) for start, end in tokens]
                for tokens, (_, spans) in zip(encoded["offset_mapping"], filled)
            ]
        return encoded


def _covering_span(spans: Sequence[Span]) -> Span:
    """Return the span from the start of the first to the end of the last non-empty span; (0, 0) if none."""
    spans = [span for span in spans if span != NOWHERE]
    return (spans[0][0], spans[-1][1]) if spans else NOWHERE


def placeholders(tokenizer: Any) -> dict[str, str]:
    """Return, by placeholder of a textual inversion of several vectors, the tokens (joined) that diffusers reads."""
    added, result = getattr(tokenizer, "added_tokens_encoder", {}), {}
    for token in added:
        names = [token]
        while (name := f"{token}_{len(names)}") in added:
            names.append(name)
        if len(names) > 1:
            result[token] = " ".join(names)
    return result


def spell_out_placeholders(tokenizer: Any) -> Any:
    """Return a tokenizer that replaces placeholders of textual inversions as diffusers does; itself if it has none."""
    if isinstance(tokenizer, PromptTokenizer) or not (vectors := placeholders(tokenizer)):
        return tokenizer
    return PromptTokenizer(tokenizer, Template(vectors=vectors), tokenizer.model_max_length)


def prompt_tokenizer(
    layout: Layout | None, index: int, tokenizer: Any, system_prompt: str | None = None
) -> Any:
    """Return a pipeline's tokenizer number `index` so that it puts the pipeline's template around prompts.

    The tokenizer itself if the pipeline passes prompts as they are. A `system_prompt` replaces the model's; HookError
    if there is none to set, or the tokenizer lacks a template of conversation that the pipeline needs.
    """
    template = _template(layout, tokenizer, system_prompt)
    length = layout.lengths[index] + template.uncounted if layout.lengths else tokenizer.model_max_length
    if (vectors := placeholders(tokenizer)) and hasattr(layout.pipeline_class(), "maybe_convert_prompt"):
        template = replace(template, vectors=vectors)
    if template == Template() and length >= tokenizer.model_max_length:
        return tokenizer
    return PromptTokenizer(tokenizer, template, length, layout)


def prompt_tokenizers(layout: Layout, tokenizers: Sequence[Any]) -> list[Any]:
    """Return a pipeline's tokenizers, each putting the pipeline's template around prompts (`prompt_tokenizer`).

    HookError if the states of two encoders are joined along channels and one tokenizer alone has an added word.
    """
    if not layout.lengths:  # of a U-Net
        added = [{*tokenizer.get_added_vocab()} - {*tokenizer.all_special_tokens} for tokenizer in tokenizers]
        if alone := sorted(set.union(*added) - set.intersection(*added)):
            raise HookError(
                f"expected the same added words in {' and '.join(one.name for one in layout.tokenizers)}, but got "
                f"{alone[0]!r:.40} in one alone: load the textual inversion into both"
            )
    return [prompt_tokenizer(layout, index, tokenizer) for index, tokenizer in enumerate(tokenizers)]


def replace_system_prompt(tokenizer: Any, system_prompt: str | None) -> Any:
    """Return a tokenizer with another system prompt in its template; itself for None, HookError if it has none."""
    if system_prompt is None:
        return tokenizer
    layout, inner = getattr(tokenizer, "layout", None), getattr(tokenizer, "tokenizer", None)
    return prompt_tokenizer(layout, 0, inner, system_prompt)


@contextmanager
def use_system_prompt(pipe: Any, layout: Layout, system_prompt: str | None) -> Iterator[dict[str, Any]]:
    """Context manager: set a pipeline's system prompt (None: its own), and yield arguments for its call."""
    template = Template() if system_prompt is None else _template(layout, pipe.tokenizer, system_prompt)
    before = {name: getattr(pipe, name) for name in template.attributes}
    try:
        vars(pipe).update(template.attributes)
        yield dict(template.arguments)
    finally:
        vars(pipe).update(before)


@cache
def _pipeline_without_components(pipeline_class: Any) -> Any:
    """Return an instance of a pipeline class whose components are all None, to read its template from."""
    _, *parts = inspect.signature(pipeline_class.__init__).parameters.values()
    return pipeline_class(**dict.fromkeys(part.name for part in parts if part.default is part.empty))


def _template(layout: Layout | None, tokenizer: Any, system_prompt: str | None) -> Template:
    """Return the `Template` that a pipeline puts around prompts, with a `system_prompt` in place of the model's."""
    if system_prompt is not None and (layout is None or layout.template not in SYSTEM_PROMPTS):
        from hooks.architectures.transformer_rows import ROWS

        having = sorted(row.name for row in ROWS if row.layout.template in SYSTEM_PROMPTS)
        raise HookError(
            f"expected a model whose system prompt can be set ({', '.join(having)}), got "
            f"{layout.pipeline if layout else 'one without'}: take `system` out"
        )
    if layout is None or layout.template in ("", "padding"):  # CogView4's, which begins the text
        return Template()
    if layout.template == "lower case":
        return Template(lower=True)
    kind = layout.pipeline_class()
    if layout.template == "conversation":
        return _conversation_template(kind, layout.tokenizers[0].name, tokenizer)
    if (
        layout.template == "instruction"
    ):  # Sana's; the first token and the last 299, as many as the prompt may have
        default = inspect.signature(kind.__call__).parameters["complex_human_instruction"].default
        lines = default if system_prompt is None else [system_prompt]
        before, arguments = "\n".join(lines), {"complex_human_instruction": lines}
        return Template(before, lower=True, uncounted=len(tokenizer.encode(before)) - 2, arguments=arguments)
    instance = _pipeline_without_components(kind)
    if layout.template == "affixes":  # what stands behind is behind the padding, too
        before = instance.prompt_template_encode_prefix
        kept = getattr(instance, "prompt_template_encode_num_suffix_tokens", 0)  # of the limit
        return Template(before, uncounted=len(tokenizer.encode(before, add_special_tokens=False)) - kept)
    if layout.template == "system prompt":
        prompt = instance.system_prompt if system_prompt is None else system_prompt
        return Template(before=f"{prompt} <Prompt Start> ", arguments={"system_prompt": prompt})
    # Qwen-Image's, of which it drops the tokens of all that stands before the prompt
    before, after = instance.prompt_template_encode.split("{}")
    if system_prompt is None:
        return Template(before, after, uncounted=instance.prompt_template_encode_start_idx)
    start, _, rest = before.partition("system\n")
    before = f"{start}system\n{system_prompt}{rest[rest.index('<|im_end|>') :]}"
    uncounted = len(tokenizer.encode(before, add_special_tokens=False))
    escaped = "{}".join(part.replace("{", "{{").replace("}", "}}") for part in (before, after))
    attributes = {"prompt_template_encode": escaped, "prompt_template_encode_start_idx": uncounted}
    return Template(before, after, uncounted=uncounted, attributes=attributes)


def _conversation_template(pipeline_class: Any, name: str, tokenizer: Any) -> Template:
    """Return a tokenizer's chat template around the user's turn; HookError, which names it `name`, if it has none."""
    instance = copy.copy(_pipeline_without_components(pipeline_class))
    encoder = SimpleNamespace(dtype=None, device="cpu")
    vars(instance).update(tokenizer=_RecordingTokenizer(tokenizer), text_encoder=encoder)
    try:
        instance.encode_prompt([_MARK], device="cpu")
    except _Recorded as recorded:
        before, _, after = recorded.text.partition(_MARK)
        return Template(before, after, uncounted=getattr(instance, "user_prompt_begin_id", 0))
    except ValueError as error:
        raise HookError(f"{name}: expected a chat_template, but got none: add it") from error
    raise AssertionError(f"{pipeline_class.__name__}.encode_prompt: gave its tokenizer no text")


class _Recorded(BaseException):
    """The text that a pipeline gives its tokenizer, in the middle of `encode_prompt`."""

    def __init__(self, text: str) -> None:
        self.text = text


class _RecordingTokenizer:
    """A tokenizer that raises `_Recorded` with the first text that it is given, instead of its tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str | Sequence[str], *args: Any, **options: Any) -> None:
        """Raise `_Recorded` with the text, or the first of several."""
        raise _Recorded(text if isinstance(text, str) else text[0])

    def apply_chat_template(self, messages: Any, tokenize: bool = True, **options: Any) -> str:
        """Return a conversation as text; where it is to be tokenized, raise `_Recorded` with it."""
        kept = {
            name: options[name] for name in ("add_generation_prompt", "enable_thinking") if name in options
        }
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, **kept)
        if tokenize:
            self(text)
        return text
