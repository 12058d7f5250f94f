package main

import (
	"context"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

// A container of Docker can be in the network of another container, and in no namespace that
// somebody else has made. So a group's network is that of a container which does nothing, as with
// Nomad: the node puts the interfaces into it. Podman takes the path of a namespace.

var _ driver.NetworkCreator = (*docker)(nil)

// holderName is the name of the container that holds an allocation's network, which is Nomad's.
func holderName(allocID string) string { return "nomad_init_" + allocID }

// CreateNetwork starts the container that holds the network of an allocation, and returns the
// path of that.
func (d *docker) CreateNetwork(ctx context.Context, allocID, hostname string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.start)
	defer cancel()
	if byPath, err := d.joinsByPath(ctx); byPath || err != nil {
		return "", err
	}
	name := holderName(allocID)
	switch v, err := d.engine.inspect(ctx, name); {
	case err != nil && !absent(err):
		return "", err
	case err == nil && v.Get("State", "Running").Bool() && v.Get("Config", "Labels", labelAlloc).Text() == allocID:
		return v.Get("NetworkSettings", "SandboxKey").Text(), d.useAgain(ctx, networkUse+allocID, v)
	case err == nil:
		if err := d.removeLeft(ctx, allocID, name); err != nil {
			return "", err
		}
	}
	image, err := d.holderImage(ctx)
	if err != nil {
		return "", err
	}
	v, err := d.startHolder(ctx, name, image, allocID, hostname)
	if err != nil {
		d.unused(ctx, networkUse+allocID)
	}
	return v.Get("NetworkSettings", "SandboxKey").Text(), err
}

func (d *docker) startHolder(ctx context.Context, name, image, allocID, hostname string) (config.Value, error) {
	labels := map[string]string{labelAlloc: allocID}
	if owner := d.use(ctx, networkUse+allocID); owner != "" {
		labels[labelOwner] = owner
	}
	created, err := d.engine.ask(ctx, request{
		method: "POST", path: "/containers/create", query: url.Values{"name": {name}}, body: holder(image, hostname, labels),
	})
	if err != nil {
		return config.Value{}, about("failed to create container", err)
	}
	return d.run(ctx, created.Get("Id").Text())
}

// DestroyNetwork removes that container.
func (d *docker) DestroyNetwork(ctx context.Context, allocID string) error {
	ctx, cancel := context.WithTimeout(ctx, patience.remove)
	defer cancel()
	d.unused(ctx, networkUse+allocID)
	return d.removeLeft(ctx, allocID, holderName(allocID))
}

// joinsByPath reports whether the engine's containers can be in a namespace by its path.
func (d *docker) joinsByPath(ctx context.Context) (bool, error) {
	v, err := d.engine.get(ctx, "/version", nil)
	return slices.ContainsFunc(v.Get("Components").Items(), func(c config.Value) bool {
		return strings.HasPrefix(c.Get("Name").Text(), "Podman")
	}), err
}

// holderImage provides the plugin's infra_image.
func (d *docker) holderImage(ctx context.Context) (string, error) {
	var o object
	o.text("image", d.settings.Get("infra_image").Text())
	o.text("image_pull_timeout", d.settings.Get("infra_image_pull_timeout").Text())
	c, err := config.Parse(o.encoded())
	if err != nil {
		return "", err
	}
	name, _, err := d.provideImage(ctx, &driver.TaskConfig{}, c)
	return name, err
}

// holder is the request that creates a container which does nothing, and may nothing.
func holder(image, hostname string, labels map[string]string) []byte {
	var o, host object
	o.text("Image", image)
	o.text("Hostname", hostname)
	o.texted("Labels", labels)
	host.text("NetworkMode", "none")
	host.texts("CapDrop", []string{"ALL"})
	host.texts("SecurityOpt", []string{"no-new-privileges"})
	host.truth("ReadonlyRootfs", true)
	o.object("HostConfig", &host)
	return o.encoded()
}

// membership is how a container is in its group's network. The zero value: it is not.
type membership struct {
	mode     string // the engine's NetworkMode
	hostname string // that of all in the network; empty: each has its own
}

// join finds the network of a task's group. A task with a network_mode has another one.
func (d *docker) join(ctx context.Context, t *driver.TaskConfig, c config.Value) (membership, error) {
	if t.Network == nil || c.Get("network_mode").Text() != "" {
		return membership{}, nil
	}
	byPath, err := d.joinsByPath(ctx)
	switch {
	case err != nil:
		return membership{}, err
	case byPath:
		return membership{mode: "ns:" + t.Network.Namespace}, nil
	}
	v, err := d.engine.inspect(ctx, holderName(t.AllocId))
	switch {
	case err != nil && !absent(err):
		return membership{}, err
	case err != nil || !v.Get("State", "Running").Bool():
		return membership{}, abi.NewError(abi.FailedPrecondition, "the container that holds the group's network does not run any more: "+
			holderName(t.AllocId)+" ended with the engine, or somebody ended it, and the allocation has to be replaced")
	}
	return membership{mode: "container:" + v.Get("Id").Text(), hostname: v.Get("Config", "Hostname").Text()}, nil
}

// ofTheGroup are keys that the network of a group decides for all its tasks.
var ofTheGroup = []string{
	"hostname", "dns_servers", "dns_search_domains", "dns_options", "mac_address", "ipv4_address", "ipv6_address", "network_aliases",
}

// joined puts the container into its group's network, which has the ports.
func (b *builder) joined(m membership) {
	b.host.text("NetworkMode", m.mode)
	for _, key := range ofTheGroup {
		if v := b.c.Get(key); v.Text() != "" || len(v.Texts()) > 0 {
			b.refuse(key + " is the group's to say where its network has a mode: the network block has hostname and dns")
		}
	}
	for _, label := range b.c.Get("ports").Texts() {
		b.port(label)
	}
}

// hostsName is the file in a task's directory that its container has as /etc/hosts.
const hostsName = "etc_hosts"

// writeHosts makes the container's /etc/hosts: that of the container which holds the network
// knows neither the network's address nor what the task adds.
func writeHosts(ctx context.Context, t *driver.TaskConfig, c config.Value, m membership) error {
	lines := []string{"127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"}
	if t.Network.Ip != "" && m.hostname != "" {
		lines = append(lines, t.Network.Ip+" "+m.hostname)
	}
	for _, text := range c.Get("extra_hosts").Texts() {
		name, address, found := strings.Cut(text, ":")
		if !found || strings.ContainsAny(text, " \t\n") {
			return abi.NewError(abi.InvalidArgument, "extra_hosts: "+strconv.Quote(text)+" is not NAME:ADDRESS")
		}
		lines = append(lines, strings.Trim(address, "[]")+" "+name)
	}
	return os.WriteFile(path.Join(task.Dir(ctx), hostsName), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}
