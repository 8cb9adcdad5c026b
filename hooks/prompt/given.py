"""The text that a pipeline gives its tokenizers for a prompt: the prompt in its template. Imports no torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from hooks.architectures.layout import Layout
from hooks.errors import HookError
from hooks.prompt.spans import Span, require_fast

_MARK = "\x00"  # stands for the prompt in a template that is asked for


@dataclass(frozen=True)
class Template:
    """What a pipeline puts around a prompt.

    Attributes
    ----------
    before, after : str
    plain : bool
        Whether the prompt is put into lower case, without blanks at its ends.
    spared : int
        Tokens of the template that do not count against the most that the pipeline takes.
    """

    before: str = ""
    after: str = ""
    plain: bool = False
    spared: int = 0

    def written(self, prompt: str) -> tuple[str, list[int]]:
        """The whole text, and of which character of the prompt each character between the template's is.

        Examples
        --------
        >>> Template("say: ", "!", plain=True).written(" Hat ")
        ('say: hat!', [1, 2, 3])
        """
        if not self.plain:
            return f"{self.before}{prompt}{self.after}", list(range(len(prompt)))
        lowered = [(one, index) for index, letter in enumerate(prompt) for one in letter.lower()]
        text = "".join(one for one, _ in lowered)
        first, length = len(text) - len(text.lstrip()), len(text.strip())
        origin = [index for _, index in lowered[first : first + length]]
        inner = prompt.lower().strip()
        # a letter may become another at the end of a word; the number of letters stays
        inner = inner if len(inner) == length else text.strip()
        return f"{self.before}{inner}{self.after}", origin


class PromptTokenizer:
    """A tokenizer as a pipeline uses it: of prompts, which it puts into their template, cut at the pipeline's length.

    Token ids are those of the whole text; spans count in the prompt, and are empty for tokens of the template.

    Parameters
    ----------
    tokenizer
        A fast tokenizer of transformers.
    template : Template
    length : int
        Most tokens that the pipeline takes, of the whole text.
    """

    def __init__(self, tokenizer: Any, template: Template, length: int) -> None:
        self._tokenizer, self.template, self.model_max_length = tokenizer, template, length

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __call__(self, texts: Sequence[str], **options: Any) -> Mapping[str, Any]:
        """As the tokenizer itself, of a list of prompts or of one."""
        if isinstance(texts, str):
            return self._tokenizer(self.template.written(texts)[0], **options)
        written = [self.template.written(text) for text in texts]
        encoded = self._tokenizer([text for text, _ in written], **options)
        if "offset_mapping" in encoded:
            encoded["offset_mapping"] = [
                [self._within(span, origin) for span in spans]
                for spans, (_, origin) in zip(encoded["offset_mapping"], written)
            ]
        return encoded

    def _within(self, span: Span, origin: Sequence[int]) -> Span:
        """A span of the whole text as one of the prompt."""
        shift = len(self.template.before)
        start, end = max(span[0] - shift, 0), min(span[1] - shift, len(origin))
        return (origin[start], origin[end - 1] + 1) if start < end else (0, 0)


def prompt_tokenizers(layout: Layout, tokenizers: Sequence[Any]) -> list[Any]:
    """The tokenizers of a pipeline as it uses them; those that are given prompts as they are stay themselves.

    Parameters
    ----------
    layout : Layout
    tokenizers : sequence
        One for each text encoder.

    Raises
    ------
    HookError
        A tokenizer does not tell the characters of its tokens, or has no template of a conversation where the pipeline
        needs one.
    """
    made = []
    for index, tokenizer in enumerate(tokenizers):
        template = _template(layout, tokenizer)
        length = layout.lengths[index] + template.spared if layout.lengths else tokenizer.model_max_length
        if template == Template() and length >= tokenizer.model_max_length:
            made.append(tokenizer)
            continue
        require_fast(tokenizer, layout.tokenizers[index].name)
        made.append(PromptTokenizer(tokenizer, template, length))
    return made


def _template(layout: Layout, tokenizer: Any) -> Template:
    return TEMPLATES[layout.template](layout, tokenizer) if layout.template else Template()


@cache
def _bare(layout_pipeline: Any) -> Any:
    """A pipeline without components, which states its template."""
    names = list(inspect.signature(layout_pipeline.__init__).parameters)[1:]
    return layout_pipeline(**dict.fromkeys(names))


def _plain(layout: Layout, tokenizer: Any) -> Template:
    return Template(plain=True)


def _instructed(layout: Layout, tokenizer: Any) -> Template:
    """Sana's: an instruction; of all, the first token and the last 299 are taken, as many as the prompt may have."""
    call = inspect.signature(layout.pipeline_class().__call__)
    before = "\n".join(call.parameters["complex_human_instruction"].default)
    return Template(before, plain=True, spared=len(tokenizer.encode(before)) - 2)


def _of_system(layout: Layout, tokenizer: Any) -> Template:
    return Template(before=f"{_bare(layout.pipeline_class()).system_prompt} <Prompt Start> ")


def _formatted(layout: Layout, tokenizer: Any) -> Template:
    bare = _bare(layout.pipeline_class())
    before, after = bare.prompt_template_encode.split("{}")
    return Template(before, after, spared=bare.prompt_template_encode_start_idx)


def _conversation(layout: Layout, tokenizer: Any) -> Template:
    kind, spared = layout.pipeline_class(), 0
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
        raise HookError(
            f"{layout.tokenizers[0].name}: expected a chat_template, but got none: add it"
        ) from error
    before, _, after = whole.partition(_MARK)
    return Template(before, after, spared=spared)


TEMPLATES: Mapping[str, Callable[[Layout, Any], Template]] = {
    "lower case": _plain,
    "instruction": _instructed,
    "system prompt": _of_system,
    "format": _formatted,
    "conversation": _conversation,
}
