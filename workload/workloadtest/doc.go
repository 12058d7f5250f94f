// Package workloadtest is what every workload.Runtime must do, as tests: an
// implementation calls [Run] with how to make one.
//
// It knows no implementation. Start reading at [Fixture].
package workloadtest
