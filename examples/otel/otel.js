#!/usr/bin/env node
// SPDX-License-Identifier: MIT
//
// Spans of OpenTelemetry from hooks: one for each wait, one for each hold, in the
// trace of the job. The cluster gets the same trace: hasp why shows it.
//
//   npm install hasp @opentelemetry/api @opentelemetry/sdk-trace-base
//   otel.js LOCK SECONDS
'use strict';

const { setTimeout: sleep } = require('node:timers/promises');
const { SpanStatusCode, TraceFlags, context, trace } =
  require('@opentelemetry/api');
const { BasicTracerProvider, ConsoleSpanExporter, SimpleSpanProcessor } =
  require('@opentelemetry/sdk-trace-base');
const { Session } = require('hasp');

/** The traceparent of a span, for the option 'trace' of a lock. */
function traceparent(span) {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

/** The context of a traceparent; without one, a span begins a trace. */
function parent(text) {
  const [, traceId, spanId, flags] = text.split('-');
  return !spanId ? context.active() : trace.setSpanContext(context.active(),
    { traceId, spanId, traceFlags: parseInt(flags, 16) & TraceFlags.SAMPLED,
      isRemote: true });
}

/** Hooks for Session.open(). */
class Spans {
  constructor(tracer) {
    this.tracer = tracer;
    this.open = new Map(); // By the id of the acquisition.
  }

  begin(name, event) {
    const attributes = { 'hasp.lock': event.name };
    if (event.token) {
      attributes['hasp.token'] = event.token;
    }
    this.open.set(event.id, this.tracer.startSpan(name,
      { startTime: event.at, attributes }, parent(event.trace)));
  }

  end({ id, at, text }) {
    const span = this.open.get(id);
    this.open.delete(id);
    if (text) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: text });
    }
    span.end(at);
  }

  acquire(event) {
    this.begin('lock wait', event);
  }

  wait({ id, at }) {
    this.open.get(id).addEvent('queued', at);
  }

  granted(event) {
    this.end(event);
    this.begin('lock hold', event);
  }

  failed(event) {
    this.end(event);
  }

  released(event) {
    this.end(event);
  }

  lost(event) {
    this.end(event);
  }
}

async function main(name, ms) {
  const provider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(new ConsoleSpanExporter())] });
  const tracer = provider.getTracer('hasp');
  const session = await Session.open({ hooks: new Spans(tracer) });
  const job = tracer.startSpan('job');
  await session.lock(name, { trace: traceparent(job) }).run(async (lock) => {
    lock.guard(ms);
    await sleep(ms, null, { signal: lock.signal });
  });
  await session.close();
  job.end();
  await provider.shutdown();
}

main(process.argv[2], 1000 * process.argv[3]);
