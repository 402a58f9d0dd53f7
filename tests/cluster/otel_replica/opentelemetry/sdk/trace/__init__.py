# SPDX-License-Identifier: MIT
import contextlib
import random
import time

from opentelemetry.trace import SpanContext, TraceFlags


class Span:
    def __init__(self, provider, name, parent, start):
        of = parent.get_span_context().trace_id if parent else \
            random.getrandbits(128)
        self.provider, self.name, self.start = provider, name, start
        self.context = SpanContext(of, random.getrandbits(64), False,
                                   TraceFlags(1))
        self.parent, self.attributes, self.events = parent, {}, []

    def get_span_context(self):
        return self.context

    def add_event(self, name, attributes=None, timestamp=None):
        self.events.append(name)

    def set_status(self, status, description=None):
        self.attributes['status'] = description

    def end(self, end_time=None):
        assert end_time is None or end_time >= self.start > 1e18
        for one in self.provider.processors:
            one.on_end(self)


class TracerProvider:
    def __init__(self):
        self.processors = []

    def add_span_processor(self, processor):
        self.processors.append(processor)

    def get_tracer(self, _):
        return self

    def start_span(self, name, context=None, attributes=None, start_time=None):
        span = Span(self, name, context, start_time or time.time_ns())
        span.attributes.update(attributes or {})
        return span

    @contextlib.contextmanager
    def start_as_current_span(self, name):
        span = self.start_span(name)
        yield span
        span.end()

    def shutdown(self):
        pass
