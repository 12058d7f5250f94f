package catalogtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

// Directory is a plugin directory with its catalog.
type Directory struct {
	T       *testing.T
	Path    string
	Catalog *catalog.Catalog
}

// Start starts the catalog and waits for what was in the directory.
func (d *Directory) Start(manager interface {
	WaitForFirstFingerprint(ctx context.Context) error
}) {
	d.T.Helper()
	d.Catalog.Start()
	ctx, cancel := context.WithTimeout(context.Background(), TestTimeout)
	defer cancel()
	require.NoError(d.T, manager.WaitForFirstFingerprint(ctx))
}

// Put renames a file of that content into the directory.
func (d *Directory) Put(name string, content []byte) {
	d.T.Helper()
	tmp := filepath.Join(d.Path, "."+name)
	require.NoError(d.T, os.WriteFile(tmp, content, 0o644))
	require.NoError(d.T, os.Rename(tmp, filepath.Join(d.Path, name)))
}

// Remove removes a file.
func (d *Directory) Remove(name string) {
	d.T.Helper()
	require.NoError(d.T, os.Remove(filepath.Join(d.Path, name)))
}

// Lines are the statuses, short.
func (d *Directory) Lines() []string {
	lines := []string{}
	for _, s := range d.Catalog.Status() {
		line := fmt.Sprintf("%s %s %s %s", filepath.Base(s.File), s.Name, s.Version, s.State)
		if s.Reason != "" {
			line += ": " + s.Reason
		}
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// Until waits for the statuses to be these.
func (d *Directory) Until(want ...string) {
	d.T.Helper()
	if want == nil {
		want = []string{}
	}
	require.EventuallyWithT(d.T, func(c *assert.CollectT) { require.Equal(c, want, d.Lines()) }, TestTimeout, 5*time.Millisecond)
}
