"""The form of a record of Every Eval Ever, schema 0.2: the fields that `analysis.export.cards.records` writes.

The form is stricter than the schema, which has more fields: what a record holds must be named here, and a score has its
range. The schema is https://github.com/evaleval/every_eval_ever.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from analysis.export.registry import RELATIONSHIPS

Details = dict[str, str]
form = with_config(ConfigDict(extra="forbid", strict=True))


@form
class Source(TypedDict):
    """Who evaluated."""

    source_name: str
    source_type: Literal["evaluation_run"]
    source_organization_name: str
    evaluator_relationship: Literal[RELATIONSHIPS]
    additional_details: Details


@form
class Version(TypedDict):
    """A program and its version."""

    name: str
    version: str


@form
class Model(TypedDict):
    """The model that generated the images."""

    name: str
    id: str
    inference_engine: NotRequired[Version]
    additional_details: Details


@form
class Data(TypedDict):
    """The prompts, which are on no hub."""

    dataset_name: str
    source_type: Literal["other"]
    additional_details: Details


@form
class Measure(TypedDict):
    """A measure; what is continuous has a least and a largest value."""

    evaluation_description: str
    metric_id: str
    metric_name: str
    metric_kind: str
    metric_unit: str
    metric_parameters: dict[str, str | float | bool | None]
    lower_is_better: bool
    score_type: Literal["continuous"]
    min_score: float
    max_score: float
    additional_details: Details


@form
class Interval(TypedDict):
    """An interval, its level from 0 to 1."""

    lower: float
    upper: float
    confidence_level: float
    method: str


@form
class Uncertainty(TypedDict):
    """An interval and the number of prompts."""

    confidence_interval: Interval
    num_samples: int


@form
class Score(TypedDict):
    """A value with what must stand beside it."""

    score: float
    details: Details
    uncertainty: Uncertainty


@form
class Generation(TypedDict):
    """How the images were generated."""

    additional_details: Details


@form
class Result(TypedDict):
    """One gap."""

    evaluation_result_id: str
    evaluation_name: str
    source_data: Data
    metric_config: Measure
    score_details: Score
    generation_config: Generation


@form
class Record(TypedDict):
    """A run."""

    schema_version: str
    evaluation_id: str
    evaluation_timestamp: str
    retrieved_timestamp: str
    source_metadata: Source
    eval_library: Version
    model_info: Model
    evaluation_results: list[Result]


RECORD = TypeAdapter(Record)
