"""The text that a pipeline gives its tokenizers for a prompt: the prompt in its template. Imports no torch.

Some templates hold a system prompt, which says what to make of the prompt; another may take its place.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

    `plain`: the prompt is put into lower case, without blanks at its ends; `spared` tokens of the template do not count
    against the most that the pipeline takes.
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
    `vectors` says what stands for each placeholder of a textual inversion of several vectors, as `vectors_of` gives it.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: Template,
        length: int,
        layout: Layout | None = None,
        vectors: Mapping[str, str] | None = None,
    ) -> None:
        self._tokenizer, self.template, self.model_max_length = tokenizer, template, length
        self._layout, self.vectors = layout, vectors or {}

    def with_system_prompt(self, text: str) -> PromptTokenizer:
        """The same with another system prompt."""
        layout = self._layout
        if layout is None or layout.template not in SYSTEM_PROMPTS:
            raise _without_system_prompt(layout.pipeline if layout else "one without")
        template = SYSTEM_PROMPTS[layout.template](layout, self._tokenizer, text)
        length = self.model_max_length - self.template.spared + template.spared
        return PromptTokenizer(self._tokenizer, template, length, layout, self.vectors)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __call__(self, texts: Sequence[str], **options: Any) -> Mapping[str, Any]:
        """As the tokenizer itself, of a list of prompts or of one."""
        if isinstance(texts, str):
            return self._tokenizer(self.template.written(self._spelled(texts)[0])[0], **options)
        spelled = [self._spelled(text) for text in texts]
        written = [self.template.written(text) for text, _ in spelled]
        encoded = self._tokenizer([text for text, _ in written], **options)
        if "offset_mapping" in encoded:
            encoded["offset_mapping"] = [
                [self._within(span, origin, own) for span in spans]
                for spans, (_, origin), (_, own) in zip(encoded["offset_mapping"], written, spelled)
            ]
        return encoded

    def _spelled(self, text: str) -> tuple[str, list[Span]]:
        """A prompt with the vectors of its placeholders, as diffusers spells it, and of each character the prompt's."""
        spans = [(index, index + 1) for index in range(len(text))]
        for token, vectors in self.vectors.items():
            if token in text and token in self._tokenizer.tokenize(text):
                for match in reversed([*re.finditer(re.escape(token), text)]):
                    start, end = match.span()
                    text = text[:start] + vectors + text[end:]
                    spans[start:end] = [(spans[start][0], spans[end - 1][1])] * len(vectors)
        return text, spans

    def _within(self, span: Span, origin: Sequence[int], own: Sequence[Span]) -> Span:
        """A span of the whole text as one of the prompt."""
        shift = len(self.template.before)
        start, end = max(span[0] - shift, 0), min(span[1] - shift, len(origin))
        return (own[origin[start]][0], own[origin[end - 1]][1]) if start < end else (0, 0)


def vectors_of(tokenizer: Any) -> dict[str, str]:
    """Placeholders of textual inversions of several vectors, and the tokens that diffusers puts in their places."""
    added = getattr(tokenizer, "added_tokens_encoder", {})
    further = {
        token: [*itertools.takewhile(added.__contains__, (f"{token}_{k}" for k in itertools.count(1)))]
        for token in added
    }
    return {token: " ".join([token, *rest]) for token, rest in further.items() if rest}


def with_vectors(tokenizer: Any) -> Any:
    """A tokenizer that reads placeholders of several vectors as diffusers spells them; itself where there are none."""
    vectors = {} if isinstance(tokenizer, PromptTokenizer) else vectors_of(tokenizer)
    return (
        PromptTokenizer(tokenizer, Template(), tokenizer.model_max_length, None, vectors)
        if vectors
        else tokenizer
    )


def prompt_tokenizers(layout: Layout, tokenizers: Sequence[Any]) -> list[Any]:
    """The tokenizers of a pipeline as it uses them; those that read prompts as they are stay themselves.

    Refuses a tokenizer that does not tell the characters of its tokens, or has no template of a conversation where the
    pipeline needs one; and of two whose encoders' states lie side by side, a word of a textual inversion in one alone.
    """
    if not layout.lengths:  # of a U-Net
        added = [{*one.get_added_vocab()} - {*one.all_special_tokens} for one in tokenizers]
        if alone := sorted(set.union(*added) - set.intersection(*added)):
            raise HookError(
                f"expected the same added words in {' and '.join(one.name for one in layout.tokenizers)}, but got "
                f"{alone[0]!r:.40} in one alone: load the textual inversion into both"
            )
    made = []
    for index, tokenizer in enumerate(tokenizers):
        template = _template(layout, tokenizer)
        length = layout.lengths[index] + template.spared if layout.lengths else tokenizer.model_max_length
        vectors = vectors_of(tokenizer)
        vectors = vectors if vectors and hasattr(layout.pipeline_class(), "maybe_convert_prompt") else {}
        if template == Template() and length >= tokenizer.model_max_length and not vectors:
            made.append(tokenizer)
            continue
        require_fast(tokenizer, layout.tokenizers[index].name)
        made.append(PromptTokenizer(tokenizer, template, length, layout, vectors))
    return made


def with_system_prompt(tokenizer: Any, text: str | None) -> Any:
    """A tokenizer of `prompt_tokenizers` with another system prompt; itself where it is None."""
    if text is None:
        return tokenizer
    if not isinstance(tokenizer, PromptTokenizer):
        raise _without_system_prompt("one without")
    return tokenizer.with_system_prompt(text)


@contextmanager
def given_system_prompt(pipe: Any, layout: Layout, text: str | None) -> Iterator[dict[str, Any]]:
    """Give a pipeline a system prompt for its calls inside the block; None leaves it its own.

    Yields arguments for the pipeline's call; refuses a pipeline that has no system prompt, or none that can be set.
    """
    if text is None:
        yield {}
    elif layout.template == "system prompt":
        yield {"system_prompt": text}
    elif layout.template == "instruction":
        yield {"complex_human_instruction": [text]}
    elif layout.template == "format":
        template = _with_system(layout, pipe.tokenizer, text)
        braced = (part.replace("{", "{{").replace("}", "}}") for part in (template.before, template.after))
        given = {
            "prompt_template_encode": "{}".join(braced),
            "prompt_template_encode_start_idx": template.spared,
        }
        own = {name: getattr(pipe, name) for name in given}
        try:
            for name, value in given.items():
                setattr(pipe, name, value)
            yield {}
        finally:
            for name, value in own.items():
                setattr(pipe, name, value)
    else:
        raise _without_system_prompt(layout.pipeline)


def _without_system_prompt(got: str) -> HookError:
    from hooks.architectures.transformer_rows import ROWS

    having = sorted(row.name for row in ROWS if row.layout.template in SYSTEM_PROMPTS)
    return HookError(
        f"expected a model whose system prompt can be set ({', '.join(having)}), got {got}: take `system` out"
    )


def _template(layout: Layout, tokenizer: Any) -> Template:
    return TEMPLATES[layout.template](layout, tokenizer) if layout.template else Template()


@cache
def _bare(layout_pipeline: Any) -> Any:
    """A pipeline without components, which states its template."""
    names = list(inspect.signature(layout_pipeline.__init__).parameters)[1:]
    return layout_pipeline(**dict.fromkeys(names))


def _plain(layout: Layout, tokenizer: Any) -> Template:
    return Template(plain=True)


def _instructed(layout: Layout, tokenizer: Any, system: str | None = None) -> Template:
    """Sana's: an instruction; of all, the first token and the last 299 are taken, as many as the prompt may have."""
    call = inspect.signature(layout.pipeline_class().__call__)
    before = "\n".join(call.parameters["complex_human_instruction"].default) if system is None else system
    return Template(before, plain=True, spared=len(tokenizer.encode(before)) - 2)


def _of_system(layout: Layout, tokenizer: Any, system: str | None = None) -> Template:
    own = _bare(layout.pipeline_class()).system_prompt if system is None else system
    return Template(before=f"{own} <Prompt Start> ")


def _formatted(layout: Layout, tokenizer: Any) -> Template:
    bare = _bare(layout.pipeline_class())
    before, after = bare.prompt_template_encode.split("{}")
    return Template(before, after, spared=bare.prompt_template_encode_start_idx)


def _with_system(layout: Layout, tokenizer: Any, system: str) -> Template:
    """Qwen-Image's, of which it drops the tokens of all that stands before the prompt."""
    own = _formatted(layout, tokenizer)
    start, _, rest = own.before.partition("system\n")
    before = f"{start}system\n{system}{rest[rest.index('<|im_end|>') :]}"
    return Template(before, own.after, spared=len(tokenizer.encode(before, add_special_tokens=False)))


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
# by the template that holds it
SYSTEM_PROMPTS: Mapping[str, Callable[[Layout, Any, str], Template]] = {
    "instruction": _instructed,
    "system prompt": _of_system,
    "format": _with_system,
}
