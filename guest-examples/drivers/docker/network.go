package main

import (
	"slices"
	"strconv"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// networking is what network a container is in, and by what names and ports.
func (b *builder) networking(group membership) {
	b.ports = map[string]uint32{}
	if len(b.c.Get("port_map").Fields()) > 0 {
		b.refuse("'port_map' cannot map group network ports, use 'ports' instead")
	}
	if group.mode != "" {
		b.joined(group)
		return
	}
	c := b.c
	mode := c.Get("network_mode").Text()
	b.host.text("NetworkMode", mode)
	b.container.text("Hostname", c.Get("hostname").Text())
	b.host.texts("Dns", c.Get("dns_servers").Texts())
	b.host.texts("DnsSearch", c.Get("dns_search_domains").Texts())
	b.host.texts("DnsOptions", c.Get("dns_options").Texts())
	b.host.texts("ExtraHosts", c.Get("extra_hosts").Texts())
	b.advertise = c.Get("advertise_ipv6_address").Bool()
	b.endpoint(mode)
	b.publish(mode)
}

// endpoint is the container's place in a network that somebody has made.
func (b *builder) endpoint(mode string) {
	c := b.c
	var place, addresses object
	addresses.text("IPv4Address", c.Get("ipv4_address").Text())
	addresses.text("IPv6Address", c.Get("ipv6_address").Text())
	place.object("IPAMConfig", &addresses)
	place.texts("Aliases", c.Get("network_aliases").Texts())
	if mode == "" {
		mode = "default" // where no address can be chosen, and no name: the engine says so
	}
	var ends object
	ends.object(mode, &place)
	b.network.object("EndpointsConfig", &ends)
	b.container.text("MacAddress", c.Get("mac_address").Text())
}

// publish publishes the ports that ports names.
func (b *builder) publish(mode string) {
	if mode == "host" {
		return
	}
	bindings := map[string][][]byte{}
	var names []string
	for _, label := range b.c.Get("ports").Texts() {
		p := b.port(label)
		if p == nil {
			return
		}
		to := p.TaskPort
		if to == 0 {
			to = p.HostPort
		}
		b.ports[label] = to
		for _, protocol := range []string{"/tcp", "/udp"} {
			var o object
			o.text("HostIp", p.HostIp)
			o.text("HostPort", strconv.Itoa(int(p.HostPort)))
			name := strconv.Itoa(int(to)) + protocol
			bindings[name] = append(bindings[name], o.encoded())
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var exposed, published object
	for _, name := range slices.Compact(names) {
		exposed.raw(name, []byte("{}"))
		published.list(name, bindings[name])
	}
	b.container.object("ExposedPorts", &exposed)
	b.host.object("PortBindings", &published)
}

// port is the group's of that label; nil: there is none, which is refused.
func (b *builder) port(label string) *wasmnodev1.Port {
	i := slices.IndexFunc(b.t.Ports, func(p *wasmnodev1.Port) bool { return p.Label == label })
	if i < 0 {
		b.refuse("Port " + strconv.Quote(label) + " not found, check network block")
		return nil
	}
	return b.t.Ports[i]
}

// network is where a container's ports are reached, nil where it has no address of its own.
func network(container config.Value, spec *specification) *driver.Network {
	for _, f := range container.Get("NetworkSettings", "Networks").Fields() {
		ip := f.Value.Get("IPAddress").Text()
		advertise := !slices.Contains([]string{"bridge", "nat", "podman"}, f.Name) // those are the engine's default ones
		if spec.advertise {
			ip, advertise = f.Value.Get("GlobalIPv6Address").Text(), true
		}
		if ip != "" {
			return &driver.Network{Ip: ip, PortMap: spec.ports, AutoAdvertise: advertise}
		}
	}
	return nil
}
