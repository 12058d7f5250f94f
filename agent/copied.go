package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/controlplane/cluster"
	"github.com/wasmnode/wasmnode/internal/boltfile"
)

// machineFile, in the data directory, tells which machine's it is.
const machineFile = "machine"

// machineIDFiles are where systems keep the ID of a machine, the first that has one counts.
var machineIDFiles = []string{"/etc/machine-id", "/var/lib/dbus/machine-id"}

// machineID is a text that no other machine has, and that does not tell the machine's own ID,
// which is to be kept from whoever is not on it; empty: the system has none.
func machineID(files []string) string {
	for _, file := range files {
		content, err := os.ReadFile(file)
		id := strings.TrimSpace(string(content))
		if raw, bad := hex.DecodeString(id); err != nil || bad != nil || len(raw) != 16 {
			continue // none, or "uninitialized", as in an image
		}
		sum := sha256.Sum256([]byte("wasmnode data directory " + id))
		return hex.EncodeToString(sum[:16])
	}
	return ""
}

// ofMachine notes whose a data directory is that has not been told, and with joins refuses one
// of another machine: servers would take two machines for one node. Alone, a node goes on with a
// directory that was moved, and does not make it its own: it may be one of two.
func (a *agent) ofMachine(id string, joins bool) error {
	file := filepath.Join(a.cfg.DataDir, machineFile)
	was, err := cluster.Note(file)
	switch {
	case err != nil:
		return fmt.Errorf("data_dir: %w", err)
	case id == "" || was == id:
		return nil
	case was == "":
		if err := cluster.SetNote(file, id); err != nil && !boltfile.IsFull(err) && !errors.Is(err, unix.EROFS) { // then the next start does
			return fmt.Errorf("data_dir: %w", err)
		}
		return nil
	case joins:
		return fmt.Errorf("data_dir: %s is of another machine, and servers would take the two for one node: if it was copied, start with an empty one (-data-dir); "+
			"if it was moved, and no agent runs with it elsewhere, remove %s and start again", a.cfg.DataDir, file)
	}
	return nil
}
