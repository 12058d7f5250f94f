package agent

import (
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/hostinfo"
	"github.com/wasmnode/wasmnode/internal/regularfile"
)

// The states of what was looked at.
const (
	FindingOK      = "ok"
	FindingWarning = "warning" // it is not as it could be, and most works without it
	FindingFailed  = "failed"  // it is needed
)

// Finding is what was found of one thing.
type Finding struct {
	Status string // one of the states
	Part   string // what it is about, such as "machine"
	Name   string
	Text   string
	Next   string `json:",omitempty"` // what to type, or to do
}

// Findings collects what was found. It is for one goroutine.
type Findings struct{ Findings []Finding }

// Add adds a finding.
func (d *Findings) Add(status, part, name, text, next string) {
	d.Findings = append(d.Findings, Finding{status, part, name, text, next})
}

// Failed reports whether something is missing that is needed.
func (d *Findings) Failed() bool {
	return slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Status == FindingFailed })
}

// addIf adds a finding that is well without a text of what is wrong.
func (d *Findings) addIf(wrong, status, part, name, well, next string) {
	if wrong == "" {
		d.Add(FindingOK, part, name, well, "")
		return
	}
	d.Add(status, part, name, wrong, next)
}

// Configured is what a doctor goes by.
type Configured struct {
	cfg config.Config
	// Address is where the API of an agent with this configuration is.
	Address string
	// PluginDir has its plugins.
	PluginDir string
}

// Configuration looks at the configuration of an agent that is given these options, and returns
// it, or the defaults where it cannot be used.
func (d *Findings) Configuration(o Options) Configured {
	cfg, err := loadToListen(o)
	paths := strings.Join(o.ConfigPaths, " ")
	if err != nil {
		text := strings.Join(strings.Fields(err.Error()), " ")
		d.Add(FindingFailed, "config", "files", text, "mend it, then: wasmnode config validate "+paths)
		cfg = config.Default()
	} else {
		d.Add(FindingOK, "config", "files", orText(paths, "none: all is as by default"), "")
		for _, w := range cfg.Warnings {
			d.Add(FindingWarning, "config", "files", w, "")
		}
	}
	return Configured{cfg, apiAddress(cfg), cfg.PluginDir}
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// apiAddress is where an agent is asked from its own machine.
func apiAddress(cfg config.Config) string {
	if cfg.Socket() != "" {
		return cfg.BindAddr
	}
	scheme, host := "http", cfg.Addresses()[0]
	if cfg.Access.TLS.HTTP {
		scheme = "https"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(cfg.HTTPPort))
}

// minFree is how much room there has to be for a node to store anything, in bytes.
const minFree = 64 << 20

// Data looks at the data directory, and at the disk that it is on.
func (d *Findings) Data(c Configured) {
	dir := c.cfg.DataDir
	at := existing(dir)
	wrong, status := "", FindingFailed
	switch info, err := os.Stat(at); {
	case err != nil:
		wrong = err.Error()
	case !info.IsDir():
		wrong = at + " is no directory"
	case unix.Access(at, unix.W_OK|unix.X_OK) != nil:
		wrong = fmt.Sprintf("user %d cannot write to %s", os.Geteuid(), at)
		if at == dir && rootCanWrite(info) {
			wrong, status = wrong+", but root can, as whom a node of a package runs", FindingWarning
		}
	}
	well := dir
	if at != dir {
		well = dir + ": it is made at the first start"
	}
	d.addIf(wrong, status, "data", "data_dir", well, "sudo wasmnode doctor, or choose another with data_dir")
	d.disk(c.cfg, at)
	d.setAside(dir)
}

// rootCanWrite reports whether a directory is root's, and open for it.
func rootCanWrite(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && info.Mode().Perm()&0o300 == 0o300
}

// existing is a directory, or the nearest above it that is there.
func existing(dir string) string {
	for dir != "/" {
		if _, err := os.Lstat(dir); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func (d *Findings) disk(cfg config.Config, at string) {
	const next = "wasmnode system gc removes what has ended; or make the file system larger"
	disk, err := hostinfo.ReadDisk(at)
	if err != nil {
		d.Add(FindingFailed, "data", "disk", err.Error(), "")
		return
	}
	text := fmt.Sprintf("%s free, %.0f%% used, %.0f%% of the inodes", humanize.IBytes(disk.Free), disk.UsedPercent, disk.InodesUsedPercent)
	switch {
	case disk.Free < minFree || disk.InodesUsedPercent >= 99.9:
		d.Add(FindingFailed, "data", "disk", "it is full: "+text, next)
	case disk.UsedPercent > cfg.Client.GCDiskUsage || disk.InodesUsedPercent > cfg.Client.GCInodeUsage:
		d.Add(FindingWarning, "data", "disk", "what has ended is removed at once, as gc_disk_usage_threshold and gc_inode_usage_threshold say: "+text, next)
	default:
		d.Add(FindingOK, "data", "disk", text, "")
	}
}

// setAside looks for files that were damaged, which nobody but the operator removes.
func (d *Findings) setAside(dir string) {
	damaged, _ := fs.Glob(os.DirFS(dir), "*.damaged-*") // the pattern is a good one
	if len(damaged) > 0 {
		last := filepath.Join(dir, damaged[len(damaged)-1])
		d.Add(FindingWarning, "data", "damaged", fmt.Sprintf("files were damaged and set aside (%d), the last as %s", len(damaged), last), "look whether all runs that should, wasmnode job status; then remove them")
	}
}

// Plugins looks at the files of the plugin directory as an agent does before it loads one.
// Nothing of them is run.
func (d *Findings) Plugins(c Configured) {
	entries, err := os.ReadDir(c.PluginDir)
	if err != nil {
		if os.IsNotExist(err) && c.PluginDir == filepath.Join(c.cfg.DataDir, "plugins") {
			d.Add(FindingOK, "plugins", "plugin_dir", c.PluginDir+": it is made when the agent starts", "")
			return
		}
		d.Add(FindingFailed, "plugins", "plugin_dir", err.Error(), "make it, or choose another with plugin_dir")
		return
	}
	good := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".wasm") || e.IsDir() {
			continue
		}
		path := filepath.Join(c.PluginDir, e.Name())
		if err := inspect(path); err != nil {
			d.Add(FindingFailed, "plugins", e.Name(), strings.Join(strings.Fields(err.Error()), " "), "wasmnode plugin doctor "+path)
			continue
		}
		good++
	}
	if good == 0 {
		d.Add(FindingWarning, "plugins", "plugin_dir", c.PluginDir+": there is no plugin in it that can be loaded, and no job runs without one", "copy plugins to it")
		return
	}
	d.Add(FindingOK, "plugins", "plugin_dir", fmt.Sprintf("%s: plugins that can be loaded: %d", c.PluginDir, good), "")
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Plugins)) {
		file := orText(c.cfg.Plugins[name].File, name+".wasm")
		if _, err := os.Stat(filepath.Join(c.PluginDir, file)); err != nil {
			d.Add(FindingWarning, "plugins", file, fmt.Sprintf("the configuration has a block for plugin %q, and its file is not there", name), "copy it to "+c.PluginDir+", or leave the block out")
		}
	}
}

func inspect(path string) error {
	wasm, err := regularfile.Read(path, int64(host.DefaultLimits().FileBytes))
	if err != nil {
		return err
	}
	_, err = host.Inspect(wasm, len(wasm))
	return err
}
