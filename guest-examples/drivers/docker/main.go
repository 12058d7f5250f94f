// Command docker is the driver plugin "docker": it runs a container of a Docker engine, or of
// another one with its API such as Podman, as a task, with the configuration of Nomad's driver.
//
// Nothing of a task is in memory: a container is found by its ID, which the handle has, or by
// the label that it is created with. Start reading at task.go.
package main

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	nodelog "github.com/wasmnode/wasmnode/sdk/go/log"
)

const version = "0.1.0"

//go:embed plugin_schema.json
var pluginSchema string

//go:embed task_schema.json
var taskSchema string

func init() { driver.Serve(&docker{}) }

func main() {}

// docker is an instance of the driver.
type docker struct {
	engine   engine
	settings config.Value // the plugin's configuration
	collects collection
	since    time.Time // it is configured
	looked   time.Time // for dangling containers
}

func (*docker) Describe() *driver.Description {
	return &driver.Description{
		Name:    "docker",
		Version: version,
		Capabilities: &driver.Capabilities{
			SendSignals:         true,
			Exec:                true,
			FilesystemIsolation: driver.IsolationImage,
			NetworkNamespaces:   true,
			CreatesNetworks:     true,
		},
		PluginConfigSchema: pluginSchema,
		TaskConfigSchema:   taskSchema,
		// Credential helpers, which few have.
		OptionalCapabilities: []string{abi.ModuleProcess},
	}
}

func (d *docker) Configure(_ context.Context, text []byte) error {
	c, err := config.Parse(text)
	if err != nil {
		return abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	d.settings = c
	if err = checkAuth(c.Get("auth")); err != nil {
		return err
	}
	d.since = time.Now()
	d.looked = d.since
	if d.collects, err = newCollection(c); err != nil {
		return err
	}
	d.engine, err = newEngine(c.Get("endpoint").Text(), c.Get("tls"))
	return err
}

// Fingerprint asks the engine for its version, and sees to what is left in it.
func (d *docker) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.fingerprint)
	defer cancel()
	v, err := d.engine.get(ctx, "/version", nil)
	switch {
	case isCode(err, abi.NotFound):
		return &driver.Fingerprint{Health: driver.Undetected, Description: "Failed to connect to docker daemon: " + err.Error()}, nil
	case err != nil:
		return &driver.Fingerprint{Health: driver.Unhealthy, Description: "Failed to connect to docker daemon: " + err.Error()}, nil
	}
	if fault := unfit(v); fault != "" {
		return &driver.Fingerprint{Health: driver.Unhealthy, Description: fault}, nil
	}
	attributes := map[string]*driver.Attribute{
		"driver.docker":         driver.Bool(true),
		"driver.docker.version": driver.String(v.Get("Version").Text()),
		"driver.docker.os_type": driver.String(v.Get("Os").Text()),
	}
	if d.settings.Get("allow_privileged").Bool() {
		attributes["driver.docker.privileged.enabled"] = driver.Bool(true)
	}
	if d.settings.Get("volumes", "enabled").Bool() {
		attributes["driver.docker.volumes.enabled"] = driver.Bool(true)
	}
	if info, err := d.engine.get(ctx, "/info", nil); err == nil {
		attributes["driver.docker.runtimes"] = driver.String(runtimes(info))
	}
	if err := d.collectImages(ctx); err != nil {
		nodelog.Warn(ctx, "images are not removed", "error", err.Error())
	}
	if err := d.removeDangling(ctx, time.Now()); err != nil {
		nodelog.Warn(ctx, "dangling containers are not removed", "error", err.Error())
	}
	return &driver.Fingerprint{Health: driver.Healthy, Description: "Healthy", Attributes: attributes}, nil
}

// oldestAPI is the minor number of the first API, 1.41, in which an engine does all that the driver asks it
// for: an older one takes no heed of cgroupns, and keeps who asks for a container's figures waiting.
const oldestAPI = 41

// unfit is why the driver cannot do with an engine of that version; empty: it can.
func unfit(version config.Value) string {
	text := version.Get("ApiVersion").Text()
	first, second, _ := strings.Cut(text, ".")
	major, err := strconv.Atoi(first)
	minor, odd := strconv.Atoi(second)
	switch {
	case text == "":
		return "the endpoint's answer to GET /version has no ApiVersion: it is no engine with Docker's API"
	case err != nil || odd != nil || major < 0 || minor < 0:
		return "the engine's API is of version " + strconv.Quote(text) + ", which is no version of Docker's API"
	case major < 1 || major == 1 && minor < oldestAPI:
		return "the engine's API is of version " + text + ", and the driver needs 1." + strconv.Itoa(oldestAPI) + " or newer, as Docker 20.10 and Podman 4.3 have"
	}
	return ""
}

// runtimes are the names of those that the engine has.
func runtimes(info config.Value) string {
	var names []string
	for _, f := range info.Get("Runtimes").Fields() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ",")
}
