// SPDX-License-Identifier: MIT

// Command otel makes spans of OpenTelemetry from hooks: one for each wait, one for
// each hold, in the trace of the job. The cluster gets the same trace: hasp why
// shows it.
//
//	otel LOCK SECONDS
//
// It is a module of its own, since hasp itself depends on nothing.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"hasp"
)

// traceparent returns that of the span in ctx, for LockOptions.Trace.
func traceparent(ctx context.Context) string {
	carrier := propagation.HeaderCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// parent returns the context of a traceparent; with "" a span begins a trace.
func parent(text string) context.Context {
	carrier := propagation.HeaderCarrier{}
	carrier.Set("traceparent", text)
	return propagation.TraceContext{}.Extract(context.Background(), carrier)
}

// spans are the open ones, by the ID of the acquisition. Hooks are called one
// after the other.
type spans struct {
	tracer trace.Tracer
	open   map[int64]trace.Span
}

func (s *spans) begin(name string, e hasp.HookEvent) {
	_, span := s.tracer.Start(parent(e.Trace), name, trace.WithTimestamp(e.At),
		trace.WithAttributes(attribute.String("hasp.lock", e.Lock)))
	if e.Token != 0 {
		span.SetAttributes(attribute.Int64("hasp.token", e.Token))
	}
	s.open[e.ID] = span
}

func (s *spans) end(e hasp.HookEvent) {
	span := s.open[e.ID]
	delete(s.open, e.ID)
	if e.Text != "" {
		span.SetStatus(codes.Error, e.Text)
	}
	span.End(trace.WithTimestamp(e.At))
}

func (s *spans) hooks() *hasp.Hooks {
	return &hasp.Hooks{
		Acquire: func(e hasp.HookEvent) { s.begin("lock wait", e) },
		Wait: func(e hasp.HookEvent) {
			s.open[e.ID].AddEvent("queued", trace.WithTimestamp(e.At))
		},
		Granted: func(e hasp.HookEvent) {
			s.end(e)
			s.begin("lock hold", e)
		},
		Failed: s.end, Released: s.end, Lost: s.end,
	}
}

func run(ctx context.Context, name string, length time.Duration) error {
	exporter, err := stdouttrace.New()
	if err != nil {
		return err
	}
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	defer provider.Shutdown(ctx)
	s := &spans{provider.Tracer("hasp"), map[int64]trace.Span{}}
	session, err := hasp.Open(ctx, hasp.Options{Hooks: s.hooks()})
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	ctx, job := s.tracer.Start(ctx, "job")
	defer job.End()
	lock := session.NewLock(name, hasp.LockOptions{Trace: traceparent(ctx)})
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	if err := lock.Guard(length); err == nil {
		time.Sleep(length)
	}
	return lock.Unlock(ctx)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: otel LOCK SECONDS")
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	if err == nil {
		err = run(context.Background(), os.Args[1],
			time.Duration(seconds*float64(time.Second)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
