// Package workloadtest is what every workload.Supervisor must do, as tests: an
// implementation calls [Run] with how to make one.
//
// It knows no implementation. Start reading at [Fixture].
package workloadtest
