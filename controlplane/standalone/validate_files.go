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
			v.checksum(a.GetterOptions)
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
	if p := t.DispatchPayload; p != nil {
		v.in("dispatch_payload", func() { v.destination(t, path.Join(localDir, p.File)) })
	}
}

// localDir is the directory in a task's own that a payload is written to.
const localDir = "local"

func (v *validation) destination(t *nomad.Task, dest string) {
	if clean := path.Join(t.Name, dest); !strings.Contains(dest, "${") && (clean == ".." || strings.HasPrefix(clean, "../")) {
		v.fault("destination escapes allocation directory")
	}
}

// checksumSizes are in bytes.
var checksumSizes = map[string]int{"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}

// checksum is KIND:HEX, or file: and an address.
func (v *validation) checksum(options map[string]string) {
	text, has := options["checksum"]
	text = strings.TrimSpace(text)
	if !has || strings.Contains(text, "${") || strings.HasPrefix(text, "file:") {
		return
	}
	kind, sum, _ := strings.Cut(text, ":")
	size, known := checksumSizes[kind]
	hash, err := hex.DecodeString(sum)
	switch {
	case text == "":
		v.fault("checksum value cannot be empty")
	case strings.Count(text, ":") != 1:
		v.fault("checksum must be given as \"type:value\"; got %q", text)
	case !known:
		v.fault("unsupported checksum type: %s", kind)
	case err != nil:
		v.fault("invalid checksum: %v", err)
	case len(hash) != size:
		v.fault("invalid %s checksum: %s", kind, sum)
	}
}

const minDisk = 10 // MB, as in Nomad

func (v *validation) disk(g *nomad.TaskGroup) {
	if size := diskOf(g); size < minDisk {
		v.fault("ephemeral_disk: size: minimum DiskMB value is %d; got %d", minDisk, size)
	}
}

// diskOf is how large a group's disk is, in MB.
func diskOf(g *nomad.TaskGroup) int {
	return structs.Deref(g.EphemeralDisk.SizeMB)
}

// logs refuses those for which the group's disk has no room, even if they are disabled.
func (v *validation) logs(g *nomad.TaskGroup, t *nomad.Task) {
	l := t.LogConfig
	if l == nil {
		return
	}
	files, size := structs.Deref(l.MaxFiles), structs.Deref(l.MaxFileSizeMB)
	if files < 1 {
		v.fault("logs: max_files: minimum number of files is 1; got %d", files)
	}
	if size < 1 {
		v.fault("logs: max_file_size: minimum file size is 1MB; got %d", size)
	}
	if disk := diskOf(g); files > 0 && size > 0 && files > (disk-1)/size {
		v.fault("logs: log storage (%d MB) must be less than requested disk capacity (%d MB)", files*size, disk)
	}
}
