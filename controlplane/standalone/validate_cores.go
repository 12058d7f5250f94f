package standalone

import (
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// cores checks which processors a task is to have.
func (v *validation) cores(t *nomad.Task) {
	if t.Resources == nil {
		return
	}
	if structs.Deref(t.Resources.Cores) > 0 && t.Driver == "wasi" {
		v.warn("resources: cores: they are reserved, but a WASI program is not kept on them: only processes are")
	}
	numa := t.Resources.NUMA
	if numa == nil {
		return
	}
	switch numa.Affinity {
	case "", "none", "prefer":
	case "require":
		v.fault("resources: numa: affinity: what \"require\" asks for cannot be promised: cores are given without regard to where they are")
	default:
		v.fault("resources: numa: affinity: Invalid affinity %q (it is one of none, prefer, require)", numa.Affinity)
	}
}
