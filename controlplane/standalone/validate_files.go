package standalone

import (
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// taskFiles refuses files that are to be put where they cannot be, as Nomad does. What is
// made of references is looked at when they are replaced.
func (v *validation) taskFiles(t *nomad.Task) {
	for i, a := range t.Artifacts {
		v.in(fmt.Sprintf("artifact %d", i+1), func() {
			v.destination(t, structs.Deref(a.RelativeDest))
			v.checksum(a.GetterOptions["checksum"])
		})
	}
	written := map[string]int{}
	for i, tm := range t.Templates {
		dest := structs.Deref(tm.DestPath)
		v.in(fmt.Sprintf("template %d", i+1), func() { v.destination(t, dest) })
		if first, again := written[dest]; again && dest != "" {
			v.fault("Template %d has same destination as %d", i+1, first)
		}
		written[dest] = i + 1
	}
}

func (v *validation) destination(t *nomad.Task, dest string) {
	if clean := path.Join(t.Name, dest); !strings.Contains(dest, "${") && (clean == ".." || strings.HasPrefix(clean, "../")) {
		v.fault("destination escapes allocation directory")
	}
}

// checksum is KIND:HEX, or file: and an address.
func (v *validation) checksum(sum string) {
	kind, text, has := strings.Cut(sum, ":")
	if !has || strings.Contains(sum, "${") {
		return
	}
	switch kind {
	case "file":
	case "md5", "sha1", "sha256", "sha512":
		if _, err := hex.DecodeString(text); err != nil {
			v.fault("invalid checksum: %v", err)
		}
	default:
		v.fault("unsupported checksum type: %s", kind)
	}
}
