"""Counters, gauges and histograms in the Prometheus text format. Labels never contain stored data."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKET_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# The label whose values are names of graphs, which a policy may hide.
GRAPH_LABEL = "graph"

Labels = tuple[tuple[str, str], ...]
Samples = Iterable[tuple[Mapping[str, str], float]]


@dataclass
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKET_SECONDS) + 1))
    total: float = 0.0


class Metrics:
    """The metrics registry of a server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helps: dict[str, tuple[str, str]] = {}
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, _Histogram]] = {}
        self._callbacks: dict[str, Callable[[], Samples]] = {}

    def declare_counter(self, name: str, help: str) -> None:
        """Declare a counter."""
        self._helps[name] = ("counter", help)
        self._counters[name] = {}

    def declare_histogram(self, name: str, help: str) -> None:
        """Declare a histogram of seconds."""
        self._helps[name] = ("histogram", help)
        self._histograms[name] = {}

    def declare_callback(self, name: str, help: str, sample: Callable[[], Samples], *, type: str = "gauge") -> None:
        """Declare a metric whose values are sampled when they are scraped."""
        self._helps[name] = (type, help)
        self._callbacks[name] = sample

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            values = self._counters[name]
            key = tuple(sorted(labels.items()))
            values[key] = values.get(key, 0) + amount

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        with self._lock:
            histogram = self._histograms[name].setdefault(tuple(sorted(labels.items())), _Histogram())
            histogram.counts[bisect_left(BUCKET_SECONDS, seconds)] += 1
            histogram.total += seconds

    def forget(self, label: str, value: str) -> None:
        """Remove the series with this value of a label: what it names is gone."""
        with self._lock:
            all_series: list[dict[Labels, Any]] = [*self._counters.values(), *self._histograms.values()]
            for series in all_series:
                for labels in [labels for labels in series if (label, value) in labels]:
                    del series[labels]

    def list_kinds(self) -> dict[str, tuple[str, str]]:
        """Return type and help of each metric by name."""
        with self._lock:
            return dict(self._helps)

    def sample(self, name: str) -> list[tuple[Labels, float]]:
        """Return the current values of a counter or gauge; of a histogram, the sum of its observations."""
        if name in self._callbacks:
            return [(tuple(sorted(labels.items())), value) for labels, value in self._callbacks[name]()]
        with self._lock:
            if name in self._counters:
                return list(self._counters[name].items())
            return [(labels, histogram.total) for labels, histogram in self._histograms[name].items()]

    def render(self, is_visible: Callable[[str], bool] = lambda _: True) -> str:
        """Return all metrics in the text format; of those by graph, only of visible graphs."""
        # Sampled outside the lock: callbacks take locks of their own, such as that of a cache.
        samples = {name: list(sample()) for name, sample in self._callbacks.items()}
        lines: list[str] = []
        with self._lock:
            for name, (type_, help_) in sorted(self._helps.items()):
                lines += [f"# HELP {name} {help_}", f"# TYPE {name} {type_}"]
                values = sorted(self._counters.get(name, {}).items())
                values += [(tuple(sorted(sampled.items())), value) for sampled, value in samples.get(name, [])]
                for labels, value in values:
                    if all(is_visible(text) for key, text in labels if key == GRAPH_LABEL):
                        lines.append(_format_sample(name, labels, value))
                for labels, histogram in sorted(self._histograms.get(name, {}).items()):
                    lines += _format_histogram(name, labels, histogram)
        return "\n".join(lines) + "\n"


def _format_histogram(name: str, labels: Labels, histogram: _Histogram) -> list[str]:
    lines = []
    cumulative = 0  # a bucket counts all observations up to its bound
    for bound, count in zip((*map(str, BUCKET_SECONDS), "+Inf"), histogram.counts, strict=True):
        cumulative += count
        lines.append(_format_sample(f"{name}_bucket", (*labels, ("le", bound)), cumulative))
    return [
        *lines,
        _format_sample(f"{name}_sum", labels, histogram.total),
        _format_sample(f"{name}_count", labels, cumulative),
    ]


def _format_sample(name: str, labels: Labels, value: float) -> str:
    label_text = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
    number = _format_number(value)
    return f"{name}{{{label_text}}} {number}" if label_text else f"{name} {number}"


def _format_number(value: float) -> str:
    if float(value).is_integer():
        return f"{value:.0f}"
    # The six digits of a plain `g` lose what is added to a large sum.
    return f"{value:.16g}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
