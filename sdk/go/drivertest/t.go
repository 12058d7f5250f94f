package drivertest

// T is what a node needs of the test that it is for: *testing.T and *testing.B have it, and so
// can whatever else runs tests.
type T interface {
	Helper()
	// Fatalf ends the test, which has failed, and does not return.
	Fatalf(format string, args ...any)
	// Cleanup has f called when the test is over, after those of later calls.
	Cleanup(f func())
	// TempDir makes an empty directory that goes with the test.
	TempDir() string
}
