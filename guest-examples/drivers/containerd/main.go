// Command containerd is the driver plugin "containerd-driver": it runs a container of containerd
// as a task, with the configuration of the community's driver of that name.
//
// Nothing of a task is in memory. All that a container needs to be found again, to say how it
// ended, and to be removed, containerd keeps; its output is in files of the task's directory.
// Start reading at task.go.
package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

const version = "0.1.0"

func init() { driver.Serve(&containerd{}) }

func main() {}

// containerd is an instance of the driver.
type containerd struct {
	engine   engine
	settings settings
}

// settings are the plugin's configuration.
type settings struct {
	endpoint, namespace, snapshotter, runtime string
	allowPrivileged                           bool
	allowCaps                                 []string
	volumes                                   struct{ enabled bool }
	pidsLimit                                 int64
}

var plugins = config.For((*settings).fields)

func (s *settings) fields(f *config.Fields) {
	f.String(&s.endpoint, "endpoint", "containerd's socket, unix:///PATH, without links in it.").Pattern("^unix:///.+").
		Default("unix:///run/containerd/containerd.sock")
	f.String(&s.namespace, "namespace", "The namespace of containerd that is the driver's, where its images have to be.").
		Pattern(`^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$`).Default("nomad")
	f.String(&s.snapshotter, "snapshotter", "What makes the file systems of containers.").NotEmpty().Default("overlayfs")
	f.String(&s.runtime, "containerd_runtime", "What runs containers.").NotEmpty().Default("io.containerd.runc.v2")
	f.Bool(&s.allowPrivileged, "allow_privileged", "Whether tasks may be privileged.").Default(false)
	f.Strings(&s.allowCaps, "allow_caps", "Capabilities that a task may have; \"all\": any.").Default([]string{
		"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
	})
	config.Block(f, &s.volumes, "volumes", "Paths of the machine in containers.", func(v *struct{ enabled bool }, f *config.Fields) {
		f.Bool(&v.enabled, "enabled", "Whether tasks may mount paths that are not of their own directories.").Default(false)
	})
	f.Int(&s.pidsLimit, "pids_limit", "The most that a task's pids_limit may be, and its default; 0: there is none.").AtLeast(0).Default(0)
}

func (*containerd) Describe() *driver.Description {
	return &driver.Description{
		Name:    "containerd-driver",
		Version: version,
		Capabilities: &driver.Capabilities{
			SendSignals:         true,
			Exec:                true,
			FilesystemIsolation: driver.IsolationImage,
			NetworkNamespaces:   true,
		},
		PluginConfigSchema: plugins.Schema(),
		TaskConfigSchema:   tasks.Schema(),
	}
}

func (d *containerd) Configure(_ context.Context, text []byte) error {
	s, err := plugins.Decode(text)
	if err != nil {
		return err
	}
	d.settings = s
	d.engine = engine{strings.TrimPrefix(s.endpoint, "unix://"), s.namespace, s.snapshotter, s.runtime}
	return nil
}

// Fingerprint asks containerd for its version and whether what the driver needs of it works.
func (d *containerd) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.fingerprint)
	defer cancel()
	v, err := d.engine.look(ctx)
	switch {
	case isCode(err, abi.NotFound) && abi.IsRecoverable(err):
		return &driver.Fingerprint{Health: driver.Undetected, Description: err.Error()}, nil
	case err != nil:
		return &driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()}, nil
	}
	attributes := map[string]*driver.Attribute{
		"driver.containerd-driver":             driver.Bool(true),
		"driver.containerd-driver.version":     driver.String(v),
		"driver.containerd-driver.namespace":   driver.String(d.engine.namespace),
		"driver.containerd-driver.snapshotter": driver.String(d.engine.snapshotter),
	}
	return &driver.Fingerprint{Health: driver.Healthy, Description: "Healthy", Attributes: attributes}, nil
}

// look returns the version of a containerd that works.
func (e engine) look(ctx context.Context) (string, error) {
	c, err := e.open(ctx)
	if err != nil {
		return "", err
	}
	defer c.close()
	v, err := c.version()
	if err != nil {
		return "", err
	}
	if !atLeast(v, 1, 6) {
		return "", abi.NewError(abi.FailedPrecondition, "containerd is of version "+v+", and the driver needs 1.6 or newer")
	}
	p, found, err := c.plugin("io.containerd.snapshotter.v1", e.snapshotter)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", abi.NewError(abi.FailedPrecondition, "containerd has no snapshotter "+e.snapshotter)
	case p.fault != "":
		return "", abi.NewError(abi.FailedPrecondition, "containerd's snapshotter "+e.snapshotter+" does not work: "+p.fault)
	}
	return v, nil
}

// atLeast compares a version such as "1.6.20~ds1" or "v2.0.0".
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err := strconv.Atoi(parts[0])
	b, _ := strconv.Atoi(parts[1])
	return err == nil && (a > major || a == major && b >= minor)
}
