// Package tracing sends OpenTelemetry spans of how a job comes to run, from the request to the process.
//
// A trace is an evaluation: its ID is the evaluation's, so that each part of a node, and each node of a
// cluster, knows it without being told, also after a restart. The span at its top is that of the request
// which made the evaluation, if it was this agent that was asked.
//
// It knows nothing of jobs. Start reading at [Tracer.Begin], then [Child].
package tracing
