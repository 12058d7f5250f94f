package host

import (
	"maps"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/sandbox"
)

// Importable are the functions that a plugin may import, by module, with their signatures.
var Importable = importable

// HelperGranted reports whether a grant is one of that helper.
func HelperGranted(g ProcessGrant, command string, args ...string) bool {
	return g.helper(command, args) != nil
}

// LinuxCapability returns the name of one of Linux's by its number.
func LinuxCapability(n int) string { return linuxCapabilities[n] }

// StackOf returns the frames of an error of the engine's, of a module without lines.
func StackOf(err error) []string { return stackOf(new(sandbox.Module), err) }

// KeptOverhead is what a line of the log that is kept takes besides its text.
const KeptOverhead = keptOverhead

// WatchAndLeave keeps what is told under the name of a plugin that is gone.
func WatchAndLeave(h *Host, name string) { h.unwatch(h.watch(name)) }

// Watches is how many names there are under which something is kept.
func Watches(h *Host) int { return len(h.watches) }

// SpendChanges takes as many changes as a plugin may make to what it keeps in a minute.
func SpendChanges(h *Host, plugin string) {
	for range 60 * keepPerSecond / keepBurst {
		h.keeper(plugin).rate.ReserveN(time.Now(), keepBurst)
	}
}

// Functions are those of every capability but how a guest is called, by module.
func Functions() map[string][]string {
	functions := map[string][]string{}
	for module, counts := range newUses() {
		functions[module] = slices.Sorted(maps.Keys(counts))
	}
	return functions
}
