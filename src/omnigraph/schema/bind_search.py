"""Bind what a property declares about searches: `@metric`, `@language`, and the options of `@index`."""

from collections.abc import Iterable

from omnigraph.lang.literals import FloatLiteral, IntLiteral, StringLiteral
from omnigraph.lang.schema_ast import Annotation
from omnigraph.schema.annotations import AnnotationSet, get_argument_span
from omnigraph.schema.catalog import Metric, VectorIndex, VectorIndexKind
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.types import Scalar, ValueType, VectorOf
from omnigraph.schema.values import format_type

CODE = "S025"
# The languages that have a stemmer, and two that have none: words as they are, and pairs of neighbouring characters for
# text without spaces between words.
LANGUAGES = (
    *[
        "arabic",
        "armenian",
        "basque",
        "catalan",
        "czech",
        "danish",
        "dutch",
        "english",
        "esperanto",
        "estonian",
        "finnish",
        "french",
        "german",
        "greek",
    ],
    *[
        "hindi",
        "hungarian",
        "indonesian",
        "irish",
        "italian",
        "lithuanian",
        "nepali",
        "norwegian",
        "persian",
        "polish",
        "portuguese",
    ],
    *["romanian", "russian", "serbian", "sesotho", "spanish", "swedish", "tamil", "turkish", "yiddish"],
    "none",
    "cjk",
)
# Fewer would not be worth an index, and only a full scan finds all.
_MIN_RECALL, _MAX_RECALL = 0.5, 0.999


def bind_metric(name: str, type_: ValueType | None, notes: AnnotationSet, findings: DiagnosticCollector) -> Metric:
    """Return the metric of a property; cosine if it declares none, or a wrong one, which is reported."""
    text = notes.get_text("metric")
    if text is None:
        return Metric.COSINE
    annotation = notes.known["metric"]
    if type_ is not None and not isinstance(type_, VectorOf):
        message = f"`@metric` on `{name}`, which is {format_type(type_)}, not a Vector"
        findings.add_error(CODE, annotation.span, message, "only vectors have a distance")
        return Metric.COSINE
    metrics = {metric.value: metric for metric in Metric}
    if text not in metrics:
        _report_choice(annotation, "metric", text, metrics, findings)
    return metrics.get(text, Metric.COSINE)


def bind_language(
    name: str, type_: ValueType | None, notes: AnnotationSet, findings: DiagnosticCollector
) -> str | None:
    """Return the language of a property; None if it declares none, or a wrong one, which is reported."""
    text = notes.get_text("language")
    if text is None:
        return None
    annotation = notes.known["language"]
    if type_ is not None and type_ is not Scalar.STRING:
        message = f"`@language` on `{name}`, which is {format_type(type_)}, not a String"
        findings.add_error(CODE, annotation.span, message, "only Strings are searched by words")
        return None
    if text not in LANGUAGES:
        _report_choice(annotation, "language", text, LANGUAGES, findings)
        return None
    # English is what a property without a declaration has.
    return None if text == "english" else text


def bind_vector_index(
    name: str, type_: ValueType | None, notes: AnnotationSet, findings: DiagnosticCollector
) -> VectorIndex | None:
    """Return the declared vector index; None without options, or with wrong ones, which are reported."""
    annotation = notes.known.get("index")
    if annotation is None or not annotation.options:
        return None
    if type_ is not None and not isinstance(type_, VectorOf):
        message = f"`@index` on `{name}` has options, but {format_type(type_)} has one kind of index only"
        findings.add_error(CODE, annotation.span, message, "write `@index`")
        return None
    options = {option.text: value for option, value in annotation.options}
    kinds = {kind.value: kind for kind in VectorIndexKind}
    kind = options.get("kind")
    if not isinstance(kind, StringLiteral):
        findings.add_error(CODE, annotation.span, "this `@index` names no kind", f"add one: {join_words(kinds)}")
        return None
    if kind.value not in kinds:
        way_out = findings.suggest_closest(kind.value, kinds) or f"there are {join_words(kinds)}"
        findings.add_error(CODE, kind.span, f'there is no kind of index "{kind.value[:60]}"', way_out)
        return None
    recall = options.get("recall")
    if not isinstance(recall, FloatLiteral | IntLiteral):
        return VectorIndex(kind=kinds[kind.value])
    if not _MIN_RECALL <= recall.value <= _MAX_RECALL:
        message = f"the recall of an index is between {_MIN_RECALL} and {_MAX_RECALL}"
        findings.add_error(CODE, recall.span, message, "a property without a declared index is searched exactly")
        return None
    return VectorIndex(kind=kinds[kind.value], recall=float(recall.value))


def _report_choice(
    annotation: Annotation, what: str, text: str, choices: Iterable[str], findings: DiagnosticCollector
) -> None:
    names = tuple(choices)
    way_out = findings.suggest_closest(text, names) or f"there are {join_words(names)}"
    findings.add_error(CODE, get_argument_span(annotation), f'there is no {what} "{text[:60]}"', way_out)
