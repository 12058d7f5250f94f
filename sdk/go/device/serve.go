package device

// Serve makes p the device plugin of this module. Call it once, from an init function
// of the main package: a plugin's main is never run. Natively it does nothing that a
// test would notice.
//
// It panics on a second call and on nil, which the node reports as a plugin that
// does not initialise.
func Serve(p Plugin) {
	if p == nil {
		panic("device.Serve: nil plugin")
	}
	if served != nil {
		panic("device.Serve: called twice; a module is one plugin")
	}
	served = p
}

var served Plugin
