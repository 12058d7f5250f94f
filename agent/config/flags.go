package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// A Flag is one of Nomad's agent, and the key that it sets.
type Flag struct {
	Name, Key string
	Switch    bool // it is true or false, and needs no value
	form      form
}

// form is what a flag's value has to be, which for those that set nothing here nobody else looks at.
type form int

const (
	text form = iota
	number
	duration
)

// fault is why a value cannot be the flag's; nil: it can.
func (f Flag) fault(value string) error {
	var err error
	want := "true or false"
	switch {
	case f.Switch:
		_, err = strconv.ParseBool(value)
	case f.form == number:
		want = "a whole number"
		_, err = strconv.Atoi(value)
	case f.form == duration:
		want = "a duration, such as 30s"
		_, err = time.ParseDuration(value)
	}
	if err != nil {
		return fmt.Errorf("-%s %q: it is %s", f.Name, value, want)
	}
	return nil
}

// Setting is a flag that was given.
type Setting struct {
	Flag
	Value string
}

// Keys whose values a flag writes in another form than files do.
const keyMeta, keyServers = "client.meta", "client.servers"

var flags = []Flag{
	{Name: "acl-enabled", Key: "acl.enabled", Switch: true},
	{Name: "acl-replication-token", Key: "acl.replication_token"},
	{Name: "alloc-dir", Key: "client.alloc_dir"},
	{Name: "alloc-mounts-dir", Key: "client.alloc_mounts_dir"},
	{Name: "bind", Key: "bind_addr"},
	{Name: "bootstrap-expect", Key: "server.bootstrap_expect", form: number},
	{Name: "client", Key: "client.enabled", Switch: true},
	{Name: "client-intro-token", Key: "client.intro_token"},
	{Name: "consul-address", Key: "consul.address"},
	{Name: "consul-auth", Key: "consul.auth"},
	{Name: "consul-auto-advertise", Key: "consul.auto_advertise", Switch: true},
	{Name: "consul-ca-file", Key: "consul.ca_file"},
	{Name: "consul-cert-file", Key: "consul.cert_file"},
	{Name: "consul-checks-use-advertise", Key: "consul.checks_use_advertise", Switch: true},
	{Name: "consul-client-auto-join", Key: "consul.client_auto_join", Switch: true},
	{Name: "consul-client-failures-before-critical", Key: "consul.client_failures_before_critical", form: number},
	{Name: "consul-client-failures-before-warning", Key: "consul.client_failures_before_warning", form: number},
	{Name: "consul-client-http-check-name", Key: "consul.client_http_check_name"},
	{Name: "consul-client-service-name", Key: "consul.client_service_name"},
	{Name: "consul-key-file", Key: "consul.key_file"},
	{Name: "consul-server-auto-join", Key: "consul.server_auto_join", Switch: true},
	{Name: "consul-server-failures-before-critical", Key: "consul.server_failures_before_critical", form: number},
	{Name: "consul-server-failures-before-warning", Key: "consul.server_failures_before_warning", form: number},
	{Name: "consul-server-http-check-name", Key: "consul.server_http_check_name"},
	{Name: "consul-server-rpc-check-name", Key: "consul.server_rpc_check_name"},
	{Name: "consul-server-serf-check-name", Key: "consul.server_serf_check_name"},
	{Name: "consul-server-service-name", Key: "consul.server_service_name"},
	{Name: "consul-ssl", Key: "consul.ssl", Switch: true},
	{Name: "consul-token", Key: "consul.token"},
	{Name: "consul-verify-ssl", Key: "consul.verify_ssl", Switch: true},
	{Name: "dc", Key: "datacenter"},
	{Name: "dev-connect", Key: "consul.enabled", Switch: true},
	{Name: "dev-consul", Key: "consul.enabled", Switch: true},
	{Name: "dev-vault", Key: "vault.enabled", Switch: true},
	{Name: "encrypt", Key: "server.encrypt"},
	{Name: "eventlog", Key: "eventlog.enabled", Switch: true},
	{Name: "eventlog-level", Key: "eventlog.level"},
	{Name: "host-volume-plugin-dir", Key: "client.host_volume_plugin_dir"},
	{Name: "host-volumes-dir", Key: "client.host_volumes_dir"},
	{Name: "join", Key: "server.start_join"},
	{Name: "log-include-location", Key: "log_include_location", Switch: true},
	{Name: "log-json", Key: "log_json", Switch: true},
	{Name: "meta", Key: keyMeta},
	{Name: "network-interface", Key: "client.network_interface"},
	{Name: "network-speed", Key: "client.network_speed", form: number},
	{Name: "node", Key: "name"},
	{Name: "node-class", Key: "client.node_class"},
	{Name: "node-pool", Key: "client.node_pool"},
	{Name: "preferred-address-family", Key: "client.preferred_address_family"},
	{Name: "raft-protocol", Key: "server.raft_protocol", form: number},
	{Name: "region", Key: "region"},
	{Name: "rejoin", Key: "server.rejoin_after_leave", Switch: true},
	{Name: "retry-interval", Key: "server.retry_interval", form: duration},
	{Name: "retry-join", Key: "server.retry_join"},
	{Name: "retry-max", Key: "server.retry_max", form: number},
	{Name: "server", Key: "server.enabled", Switch: true},
	{Name: "servers", Key: keyServers},
	{Name: "state-dir", Key: "client.state_dir"},
	{Name: "vault-address", Key: "vault.address"},
	{Name: "vault-ca-file", Key: "vault.ca_file"},
	{Name: "vault-ca-path", Key: "vault.ca_path"},
	{Name: "vault-cert-file", Key: "vault.cert_file"},
	{Name: "vault-create-from-role", Key: "vault.create_from_role"},
	{Name: "vault-enabled", Key: "vault.enabled", Switch: true},
	{Name: "vault-key-file", Key: "vault.key_file"},
	{Name: "vault-namespace", Key: "vault.namespace"},
	{Name: "vault-tls-server-name", Key: "vault.tls_server_name"},
	{Name: "vault-tls-skip-verify", Key: "vault.tls_skip_verify", Switch: true},
}

// Flags returns Nomad's flags that set keys of the configuration, by name.
func Flags() []Flag { return slices.Clone(flags) }

// Set does what a flag says, as a file would whose only key is the flag's; what it has to say
// of it is in Warnings. After an error the configuration is as it was.
func (c *Config) Set(s Setting) error {
	if s.Key == keyServers {
		return c.setServers(s.Value)
	}
	if s.Key == keyMeta {
		name, value, ok := strings.Cut(s.Value, "=")
		if !ok {
			return fmt.Errorf("-%s %q: it has the form KEY=VALUE", s.Name, s.Value)
		}
		meta := maps.Clone(c.Client.Meta)
		if meta == nil {
			meta = map[string]string{}
		}
		meta[name], c.Client.Meta = value, meta
		return nil
	}
	l := loader{config: *c}
	l.file("", assignment(s))
	for _, d := range l.diags {
		d.Subject = nil // there is no file that it could be in
	}
	if l.diags.HasErrors() {
		return errors.New("-" + s.Name + ": " + strings.Join(hclvalue.Lines(l.diags), "; "))
	}
	if err := s.fault(s.Value); err != nil {
		return err
	}
	*c = l.config
	for _, warning := range l.warnings(len(c.Client.Servers) > 0) {
		c.Warnings = append(slices.Clone(c.Warnings), "-"+s.Name+": "+warning)
	}
	return nil
}

// setServers reads a list that is separated by commas, or by spaces where there are no templates.
func (c *Config) setServers(list string) error {
	var servers []string
	for text := range strings.SplitSeq(list, ",") {
		named := strings.Fields(text)
		if isTemplate(text) {
			var err error
			if named, err = resolve(text, true); err != nil {
				return fmt.Errorf("-servers: %w", err)
			}
		}
		servers = append(servers, named...)
	}
	c.Client.Servers = servers
	return nil
}

// assignment is a file that sets a flag's key.
func assignment(s Setting) []byte {
	blocks := strings.Split(s.Key, ".")
	text := blocks[len(blocks)-1] + " = " + string(hclwrite.TokensForValue(cty.StringVal(s.Value)).Bytes())
	for _, block := range slices.Backward(blocks[:len(blocks)-1]) {
		text = block + " {\n" + text + "\n}"
	}
	return []byte(text + "\n")
}
