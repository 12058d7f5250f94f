package driver

// Serve makes d the driver of this plugin. Call it once, from an init function of
// the main package: a plugin's main is never run. Natively it does nothing that a
// test would notice.
//
// It panics on a second call and on nil, which the node reports as a plugin that
// does not initialise.
func Serve(d Driver) {
	if d == nil {
		panic("driver.Serve: nil driver")
	}
	if served != nil {
		panic("driver.Serve: called twice; a plugin is one driver")
	}
	served = d
}

var served Driver
