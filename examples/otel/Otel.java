// SPDX-License-Identifier: MIT

import hasp.HaspLock;
import hasp.Hooks;
import hasp.Session;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.exporter.logging.LoggingSpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/**
 * Spans of OpenTelemetry from hooks: one for each wait, one for each hold, in the
 * trace of the job. The cluster gets the same trace: hasp why shows it. Needs
 * opentelemetry-sdk and opentelemetry-exporter-logging.
 *
 * <p>Otel LOCK SECONDS
 */
public final class Otel implements Hooks {
    private final Tracer tracer;
    /** By the id of the acquisition; hooks are called one after the other. */
    private final Map<Long, Span> open = new HashMap<>();

    private Otel(Tracer tracer) {
        this.tracer = tracer;
    }

    /** The traceparent of a span, for the option trace of a lock. */
    private static String traceparent(Span span) {
        SpanContext of = span.getSpanContext();
        return "00-" + of.getTraceId() + "-" + of.getSpanId() + "-"
            + of.getTraceFlags().asHex();
    }

    /** The context of a traceparent; without one, a span begins a trace. */
    private static Context parent(String text) {
        String[] part = text.split("-");
        return part.length != 4 ? Context.root() : Context.root().with(Span.wrap(
            SpanContext.createFromRemoteParent(part[1], part[2],
                TraceFlags.fromHex(part[3], 0), TraceState.getDefault())));
    }

    private void begin(String name, Event event) {
        var span = tracer.spanBuilder(name).setParent(parent(event.trace()))
            .setStartTimestamp(event.at()).setAttribute("hasp.lock", event.lock());
        if (event.token() != 0) {
            span.setAttribute("hasp.token", event.token());
        }
        open.put(event.id(), span.startSpan());
    }

    private void end(Event event) {
        Span span = open.remove(event.id());
        if (!event.text().isEmpty()) {
            span.setStatus(StatusCode.ERROR, event.text());
        }
        span.end(event.at());
    }

    @Override
    public void acquire(Event event) {
        begin("lock wait", event);
    }

    @Override
    public void wait(Event event) {
        open.get(event.id()).addEvent("queued", event.at());
    }

    @Override
    public void granted(Event event) {
        end(event);
        begin("lock hold", event);
    }

    @Override
    public void failed(Event event) {
        end(event);
    }

    @Override
    public void released(Event event) {
        end(event);
    }

    @Override
    public void lost(Event event) {
        end(event);
    }

    public static void main(String[] arguments) throws InterruptedException {
        var length = Duration.ofMillis((long) (1000 * Double.parseDouble(arguments[1])));
        try (var provider = SdkTracerProvider.builder().addSpanProcessor(
                SimpleSpanProcessor.create(LoggingSpanExporter.create())).build()) {
            Tracer tracer = provider.get("hasp");
            try (var session = Session.open(
                    new Session.Options().hooks(new Otel(tracer)))) {
                Span job = tracer.spanBuilder("job").startSpan();
                HaspLock lock = session.lock(arguments[0],
                    new HaspLock.Options().trace(traceparent(job)));
                lock.lockInterruptibly();
                try {
                    lock.guard(length);
                    Thread.sleep(length.toMillis());
                } finally {
                    lock.unlock();
                    job.end();
                }
            }
        }
    }
}
