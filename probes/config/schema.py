"""``triplets.yaml``: its schema; the defaults of its sections stand in `probes.config.sections`.

`probes.config.loading` makes a :class:`Config` of a file and the command line.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, model_validator

from probes.config import checks, presets
from probes.config.audit_options import DallEval, Gep, Skills
from probes.config.checks import INDICATORS
from probes.config.edit_options import Edit
from probes.config.image_options import Images
from probes.config.measure_options import Measure
from probes.config.observe_options import Observe
from probes.config.sections import Capture, Cluster, Generate, Indicator, Report, Sampler
from probes.config.stop_options import Stop, in_order
from probes.config.trace_options import Trace
from probes.errors import UserError
from probes.fields.messages import message
from probes.fields.types import (
    FLAVOUR,
    NAME,
    PERSON,
    Alters,
    Model,
    Positive,
    Section,
    Seeds,
    Word,
    option,
    require_printable,
    takes,
)
from probes.fields.yaml import YamlSource, yaml_text
from probes.paths import expand_run, name_of
from probes.prompts.prompt import SKILL, check_prompts, from_written
from probes.prompts.source import Prompts, defaults

__all__ = [
    "PERSON",
    "Capture",
    "Cluster",
    "Config",
    "DallEval",
    "Edit",
    "Generate",
    "Gep",
    "Indicator",
    "Measure",
    "Observe",
    "Report",
    "Sampler",
    "Skills",
    "Stop",
    "Trace",
    "schema_text",
]

Preset = Literal[*presets.names()]  # type: ignore[valid-type]
_Word = Annotated[Word | Indicator, takes("a word, or {word: ..., plural: ...}")]
_Words = Annotated[
    Word | Indicator | Annotated[list[_Word], Field(min_length=1)],
    takes("a word, a list of a word and its synonyms, or {word: ..., control: true}"),
]


def _indicator(value: Any) -> Any:
    """Take a bare word for ``{word: ...}``."""
    return {"word": value} if isinstance(value, str) else value


class Config(Section):
    """All that ``triplets.yaml`` can say."""

    name: Annotated[
        str, Field(pattern=NAME, max_length=100), option(example="first-light"), Alters("nothing")
    ] = "run"
    """Name of the run, in its report and its folder."""
    preset: Annotated[Preset | None, option(null="none", example="wu2025"), Alters("nothing")] = None
    """Settings of a publication, under those that are written here; `wu2025` are those of Wu et al. 2025. Use
    it to reproduce a paper; its values are recorded."""
    # a model is known by its content, not by its name
    model: Annotated[Model, option(example="CompVis/stable-diffusion-v1-4"), Alters("nothing")] = "toyworld"
    """The model that generates: a bundled one (toyworld, toyworld-mirror, -null, -dit and -work among them), a
    hub id, a folder, or a .safetensors or .ckpt file. The bundled ones have a bias that is known, to try the
    tool; docs/how_to/models.md says what others are read."""
    revision: Annotated[
        Annotated[str, Field(min_length=1)] | None,
        option(null="the default branch", example="main"),
        Alters("nothing"),
    ] = None
    """Branch, tag or commit of a model of the hub. Name one to study a fixed state; run.json keeps the commit
    in any case."""
    variant: Annotated[
        Annotated[str, Field(pattern=FLAVOUR)] | None,
        option(null="full precision where it is there", example="fp16"),
        Alters("nothing"),
    ] = None
    """The weights of a folder or hub model that are called so. fp16 is half the download."""
    edit: Annotated[Edit | None, option(null="nothing", example={"words": {"person": {"woman": 0.25}}})] = (
        None
    )
    """What is altered in the model once it is loaded (docs/validation/mitigation.md)."""
    indicators: Annotated[
        dict[str, Annotated[Indicator, BeforeValidator(_indicator, json_schema_input_type=_Words)]],
        option(
            example={
                "neutral": ["person", "human"],
                "feminine": ["woman", "lady"],
                "masculine": ["man", "male"],
            }
        ),
    ] = Field(
        default={
            "neutral": Indicator(word="person"),
            "feminine": Indicator(word="woman"),
            "masculine": Indicator(word="man"),
        },
        max_length=INDICATORS,
    )
    """The words for the person by names of your own: the reference and the sides that are held against each
    other. A list is a word with its synonyms, which become controls of that side; with three words a side a gap
    can be told from what any other word makes. With one, or with none and plain prompts, no words are
    compared."""
    reference: Annotated[str, option(example="neutral")] = "neutral"
    """The indicator to whose images those of all others are compared."""
    contrasts: Annotated[
        list[list[str]] | None,
        option(
            null="every pair of indicators that are neither the reference nor a synonym of another",
            example=[["masculine", "feminine"]],
        ),
        Alters("measure"),
    ] = None
    """Pairs of indicators that are held against each other. A gap is how much nearer the reference is to the
    first than to the second."""
    # known by the prompts and the content of its images
    images: Annotated[
        Images | None,
        option(null="none: the model generates", example={"from": "images.csv"}),
        Alters("nothing"),
    ] = None
    """Images that another program generated, to be measured in place of a model
    (docs/how_to/foreign_images.md)."""
    prompts: Annotated[
        Prompts, option(example=["a {person} riding a bike", "a {person} in a hat"]), Alters("part")
    ]
    """The prompts: texts with {person} where the word goes, a text for each indicator, plain texts that compare
    no words, each with levels of your own (`{text: ..., profession: nurse}`), a table of them, a file of
    captions or a set (`{from: ...}`), a grid, or templates around any of these. Intervals are over prompts:
    take at least 24."""
    limit: Annotated[Positive | None, option(unit="prompts", null="all", example=4), Alters("part")] = None
    """Only the first so many prompts. Use it to try a configuration."""
    seeds: Annotated[Seeds, option(unit="seed", example=[0, 1, 2]), Alters("part")] = [0]
    """Seeds of the noise of every prompt. A list, or `{count: N, start: S}`; more seeds say more of each
    prompt, more prompts more of the model."""
    stop: Annotated[
        Stop | None,
        option(null="all images are drawn", example={"question": "interval", "within": 0.05}),
        Alters("part"),
    ] = None
    """A question that ends the run as soon as it is answered (docs/how_to/stopping.md). `{}` takes all
    defaults; `prompts`, `limit` and `seeds` say how many images it may take."""
    sampler: Annotated[Sampler, option(example={"steps": 20})] = Sampler()
    """Steps, guidance, noise and size of an image."""
    capture: Annotated[Capture, option(example={"sites": ["unet.*", "latent"]})] = Capture()
    """Which sites and word maps are kept."""
    generate: Annotated[Generate, option(example={"workers": 2})] = Generate()
    """Batches, parts, number format, device and processes."""
    cluster: Annotated[
        Cluster | None,
        option(null="no cluster, the processes of this machine", example={"address": "auto"}),
        Alters("nothing"),
    ] = None
    """A Ray cluster whose workers generate and observe (docs/how_to/clusters.md)."""
    observe: Annotated[Observe, option(example={"objects": False}), Alters("observe")] = Observe()
    """Which networks observe the images, and what they look for."""
    trace: Annotated[
        Trace | None, option(null="nothing is traced", example={"sites": ["unet.*.cross"]}), Alters("trace")
    ] = None
    """Activation patching: which place inside the model makes the difference (docs/how_to/trace.md). `{}` takes
    all defaults; it takes longer than all other stages."""
    measure: Annotated[Measure, option(example={"primary": "ssim"}), Alters("measure")] = Measure()
    """Resamples, levels, thresholds, and the gap that would matter."""
    gep: Annotated[Gep, option(example={"ensemble": 1}), Alters("measure")] = Gep()
    """An audit of attributes by prompts with contexts (docs/how_to/gep.md)."""
    dalleval: Annotated[DallEval, option(example={"tone": "ciede2000"}), Alters("measure")] = DallEval()
    """An audit of professions (docs/how_to/dalleval.md)."""
    skills: Annotated[Skills, option(example={"count": "only"}), Alters("measure")] = Skills()
    """An audit of visual skills (docs/how_to/paintskills.md)."""
    report: Annotated[Report, option(example={"gallery": 100}), Alters("report")] = Report()
    """What the page shows."""
    out: Annotated[str | None, option(null="runs/NAME", example="runs/first-light"), Alters("nothing")] = None
    """Run directory."""

    if not TYPE_CHECKING:  # who checks types reads the fields

        def __init__(self, /, **data: Any) -> None:
            """Validate fields, in Python as in a file; a `UserError` says the first that is wrong."""
            try:
                super().__init__(**data)
            except ValidationError as error:
                raise UserError(message(error, type(self), YamlSource("Config", "", data), {})) from None

        # of one that is marked as pydantic's own, pydantic validates files as before, with their context
        __init__.__pydantic_base_init__ = True

    @model_validator(mode="before")
    @classmethod
    def _written_out(cls, data: Any, info: ValidationInfo) -> Any:
        require_printable(data)
        if not isinstance(data, Mapping):
            return data
        usual = cls.model_fields["reference"].default
        data = checks.expand_synonyms(presets.applied(data), usual)
        context = info.context or {}
        return defaults(data, usual, Path(context.get("folder", "")), context.get("loaded", []))

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        checks.check_indicators(self.indicators, self.reference, self.prompts)
        if self.contrasts is None:
            contrasts = checks.default_contrasts(self.indicators, self.reference)
            object.__setattr__(self, "contrasts", contrasts)
        checks.check_contrasts(self.contrasts or [], self.indicators, self.reference)
        check_prompts(self.prompts, list(self.indicators), of_images=self.images is not None)
        if any(SKILL in prompt.levels for prompt in self.prompts):
            from probes.prompts import paintskills

            paintskills.check(self.prompts, list(self.indicators))
        if self.stop is not None:
            checks.check_stop(self)
            own = self.prompts[: self.limit]
            object.__setattr__(self, "prompts", [*in_order(own, self.stop), *self.prompts[len(own) :]])
        if self.images is None:  # else they are there already
            checks.check_size(len(self.prompts[: self.limit]), len(self.seeds), len(self.indicators))
        return self

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> Config:
        """Return the configuration of a run's record; what the record does not say is empty, and not the default."""
        values = {"model": "", "reference": "", "indicators": {}, "contrasts": [], "seeds": [], **values}
        prompts = [from_written(prompt) for prompt in values.get("prompts", ())]
        return super().stored({**values, "prompts": prompts})

    @property
    def clustered(self) -> bool:
        """Return whether workers of a cluster generate and observe the images."""
        return self.cluster is not None and self.cluster.address != "none"

    @property
    def unit(self) -> str:
        """Unit of intervals and p-values: ``prompt``; in a run of one prompt and several seeds, ``seed``."""
        return "seed" if len(self.prompts[: self.limit]) == 1 < len(self.seeds) else "prompt"

    @property
    def paired(self) -> bool:
        """Return whether the images of a triplet and seed start from the same noise."""
        if self.images is not None:
            return self.images.paired
        return self.sampler.noise != "independent"

    @property
    def model_name(self) -> str:
        """Name of the model in pages and tables: as given, of a file or a folder its last part."""
        return self.model if self.images is not None else name_of(self.model)

    @property
    def compares(self) -> bool:
        """Return whether there are images of two indicators or more, which are compared with each other."""
        return len(self.indicators) > 1

    @property
    def out_path(self) -> Path:
        """The run directory: `out`, where ``~`` is the user's home, or ``runs/<name>``."""
        return expand_run(self.out, "out") if self.out else Path("runs") / self.name

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """Show as YAML what is not a default."""
        return f"<pre>{html.escape(yaml_text(self.model_dump(mode='json', exclude_defaults=True)))}</pre>"

    def resolved(self) -> dict[str, Any]:
        """The configuration as plain data that :meth:`Config.model_validate` takes again."""
        return self.model_dump(mode="json")


def schema_text() -> str:
    """Return the JSON schema of ``triplets.yaml``, by which editors complete and check it.

    What hangs on several fields at once (contrasts of indicators that are there, say) is beyond it.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
