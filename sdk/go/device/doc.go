// Package device is the guest SDK for device plugins. A device plugin implements
// [Plugin], and [Releaser] or [Statser] if it has something to free or to measure.
// The whole of its main package:
//
//	func init() { device.Serve(&usb{}) }
//
//	func main() {}
//
// is compiled with the ordinary Go toolchain:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o usb.wasm
//
// The same package builds natively, where package drivertest calls it as the node
// would. A plugin reads what the operator granted it with package os, at the paths
// that things have on the host.
//
// # What a device plugin must not do
//
// It must not keep in memory what has to survive. The node runs several instances
// side by side and throws one away whenever it likes, always after a panic, an exit
// or a missed deadline: what there is has to be read again in each call.
//
// Start reading at [Plugin].
package device
