"""What a server counts, for Prometheus: GET /metrics."""

from __future__ import annotations

import functools
from typing import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from albert_tf.server.batching import Batcher
from albert_tf.server.signatures import ServedModel

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counts of a server, by endpoint and by model."""

    def __init__(self, models: Sequence[ServedModel], batchers: Sequence[Batcher]):
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("albert_tf_requests", "Requests.", ["endpoint", "status"], registry=registry)
        self._errors = Counter("albert_tf_errors", "Requests with a status from 400.", ["endpoint"], registry=registry)
        self._seconds = Histogram("albert_tf_request_seconds", "Seconds of a request.", ["endpoint"], registry=registry)
        rows = Histogram("albert_tf_batch_rows", "Rows of a batch.", ["model"], buckets=_ROWS, registry=registry)
        tokens = Counter("albert_tf_tokens", "Tokens, without padding.", ["model"], registry=registry)
        queue = Gauge("albert_tf_queue", "Requests with rows that are in no batch yet.", ["model"], registry=registry)

        def add_batch(model: ServedModel, size: int) -> None:
            rows.labels(model.name).observe(size)
            tokens.labels(model.name).inc(model.take_tokens())

        for model, batcher in zip(models, batchers):
            batcher.on_batch = functools.partial(add_batch, model)
            queue.labels(model.name).set_function(functools.partial(getattr, batcher, "num_waiting"))

    def add_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self._requests.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)
        if status >= 400:
            self._errors.labels(endpoint).inc()

    def content(self) -> bytes:
        """The counts in Prometheus' text format."""
        return generate_latest(self._registry)
