#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Spans of OpenTelemetry from hooks: one for each wait, one for each hold, in the
trace of the job. The cluster gets the same trace: hasp why shows it.

    pip install hasp opentelemetry-sdk
    otel.py LOCK SECONDS
"""

import sys
import time

from hasp import Hooks, Session
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (ConsoleSpanExporter,
                                            SimpleSpanProcessor)


def traceparent(span):
    """The traceparent of a span, for the option 'trace' of a lock."""
    context = span.get_span_context()
    return (f'00-{context.trace_id:032x}-{context.span_id:016x}-'
            f'{context.trace_flags:02x}')


def parent(text):
    """The context of a traceparent; without one, a span begins a trace."""
    if not text:
        return None
    _, trace_id, span_id, flags = text.split('-')
    return trace.set_span_in_context(trace.NonRecordingSpan(trace.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True,
        trace_flags=trace.TraceFlags(int(flags, 16)))))


class Spans(Hooks):
    def __init__(self, tracer):
        self.tracer = tracer
        self.open = {}  # By the id of the acquisition.

    def begin(self, name, event):
        attributes = {'hasp.lock': event.name}
        if event.token:
            attributes['hasp.token'] = event.token
        self.open[event.id] = self.tracer.start_span(
            name, parent(event.trace), attributes=attributes,
            start_time=int(event.at * 1e9))

    def end(self, event):
        span = self.open.pop(event.id)
        if event.text:
            span.set_status(trace.StatusCode.ERROR, event.text)
        span.end(int(event.at * 1e9))

    def acquire(self, event):
        self.begin('lock wait', event)

    def wait(self, event):
        self.open[event.id].add_event('queued', timestamp=int(event.at * 1e9))

    def granted(self, event):
        self.end(event)
        self.begin('lock hold', event)

    failed = released = lost = end


def main(name, seconds):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    tracer = provider.get_tracer('hasp')
    with Session(hooks=Spans(tracer)) as session, \
            tracer.start_as_current_span('job') as job, \
            session.lock(name, trace=traceparent(job)) as lock:
        lock.guard(seconds)
        time.sleep(seconds)
    provider.shutdown()


main(sys.argv[1], float(sys.argv[2]))
