package config

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// A NomadKey is a key or a block of Nomad's agent configuration that this agent has no part
// for, or does not let be set.
type NomadKey struct {
	Key string // with its blocks: "client.servers"
	// As are values that are how this agent is: nothing is said of them. Nil: no value is.
	As []string
	// Refused: an agent does not start with it, since the node would be another one than is
	// asked for. What is not refused is warned about.
	Refused bool
	Why     string // what is the case instead
}

// What several keys of Nomad's are told.
const (
	alone        = "an agent is no server of a cluster: leave this out for a single server, or have client.servers join others"
	noPeers      = "this agent is the only server: there are no others to agree or talk with"
	joins        = "the servers that client.servers joins have that in their own configuration"
	onlyHTTP     = "the agent listens for HTTP only"
	atMetrics    = "metrics are read at /v1/metrics, and are sent nowhere"
	whenRead     = "metrics are measured when they are read"
	noMetaLabels = "metrics have no labels of metadata, which jobs choose: there would be no bound to them"
	toStderr     = "the agent logs to its standard error, and leaves keeping that to whoever runs it"
	byDataDir    = "what is kept is below data_dir"
	noConsul     = "there is no Consul: jobs that ask for it are refused"
	noVault      = "there is no Vault: jobs that ask for it are refused"
	measured     = "the machine is what is measured of it: client.reserved keeps some of it back"
	modules      = "plugins are modules: they take no arguments, and listen on nothing"
	ownBounds    = "artifact.max_size, max_files and timeout bound what is fetched, and it is fetched by the agent itself"
	ownTokens    = "tokens are looked at with each request"
	lookedAt     = "what templates are rendered from is looked at once a second, and again when that failed"
	onlyMachine  = "the machine is all that is looked at"
	noCSI        = "there are no CSI volumes"
)

// nomadKeys are what is known of Nomad's. A key stands for all that is in its block, but for
// what has a line of its own.
var nomadKeys = []NomadKey{
	{Key: "addresses.rpc", Why: onlyHTTP},
	{Key: "addresses.serf", Why: onlyHTTP},
	{Key: "advertise", Why: "the address that the API listens on is the one that is told"},
	{Key: "audit", Refused: true, Why: "nothing would be audited, which is part of Nomad Enterprise: leave this out"},
	{Key: "autopilot", Why: noPeers},
	{Key: "consul", Why: noConsul},
	{Key: "disable_anonymous_signature", As: []string{"true", "false"}, Why: "nothing is sent to anybody"},
	{Key: "disable_update_check", As: []string{"true", "false"}, Why: "nothing is sent to anybody"},
	{Key: "enable_syslog", As: []string{"false"}, Why: toStderr},
	{Key: "eventlog", Why: toStderr},
	{Key: "http_api_response_headers", Why: "answers have the headers that they have"},
	{Key: "keyring", Refused: true, Why: "keys are kept in data_dir, and not elsewhere: leave this out"},
	{Key: `keyring "aead"`, As: []string{""}, Why: "keys are kept by the agent"},
	{Key: "leave_on_interrupt", As: []string{"false"}, Why: noPeers + "; tasks go on while the agent is not there"},
	{Key: "leave_on_terminate", As: []string{"false"}, Why: noPeers + "; tasks go on while the agent is not there"},
	{Key: "log_file", As: []string{""}, Why: toStderr},
	{Key: "log_include_location", As: []string{"false"}, Why: "lines of the log have no place in the code"},
	{Key: "log_rotate_bytes", Why: toStderr},
	{Key: "log_rotate_duration", Why: toStderr},
	{Key: "log_rotate_max_files", Why: toStderr},
	{Key: "plugin.args", Why: modules},
	{Key: "ports.rpc", Why: onlyHTTP},
	{Key: "ports.serf", Why: onlyHTTP},
	{Key: "reporting", Why: "nothing is sent to anybody"},
	{Key: "rpc", Why: onlyHTTP},
	{Key: "sentinel", Refused: true, Why: "no policy would be enforced, which is part of Nomad Enterprise: leave this out"},
	{Key: "syslog_facility", Why: toStderr},
	{Key: "vault", Why: noVault},

	{Key: "acl.policy_ttl", Why: ownTokens},
	{Key: "acl.replication_token", Why: noPeers},
	{Key: "acl.role_ttl", Why: ownTokens},
	{Key: "acl.token_ttl", Why: ownTokens},

	{Key: "client.alloc_dir", Why: byDataDir},
	{Key: "client.alloc_mounts_dir", Why: byDataDir},
	{Key: "client.artifact.decompression_file_count_limit", Why: ownBounds},
	{Key: "client.artifact.decompression_size_limit", Why: ownBounds},
	{Key: "client.artifact.disable_artifact_inspection", As: []string{"false"}, Why: ownBounds},
	{Key: "client.artifact.disable_filesystem_isolation", Why: ownBounds},
	{Key: "client.artifact.filesystem_isolation_extra_paths", Why: ownBounds},
	{Key: "client.artifact.gcs_timeout", Why: ownBounds},
	{Key: "client.artifact.git_timeout", Why: ownBounds},
	{Key: "client.artifact.hg_timeout", Why: ownBounds},
	{Key: "client.artifact.http_max_size", Why: ownBounds},
	{Key: "client.artifact.http_read_timeout", Why: ownBounds},
	{Key: "client.artifact.s3_timeout", Why: ownBounds},
	{Key: "client.artifact.set_environment_variables", Why: ownBounds},
	{Key: "client.bind_wildcard_default_host_network", Why: "ports are on the address of their host_network"},
	{Key: "client.bridge_network_hairpin_mode", Why: "allocations on a bridge do not reach their own mapped ports"},
	{Key: "client.bridge_network_subnet_ipv6", Why: "bridge_network_subnet is where addresses are from"},
	{Key: "client.cgroup_parent", Why: "control groups are below the agent's own"},
	{Key: "client.client_max_port", Why: modules},
	{Key: "client.client_min_port", Why: modules},
	{Key: "client.common_plugin_dir", Why: "tasks are given no secrets by plugins: they read variables"},
	{Key: "client.cpu_disable_dmidecode", Why: "dmidecode is not run"},
	{Key: "client.cpu_total_compute", Why: measured},
	{Key: "client.default_ineligible", As: []string{"false"}, Refused: true, Why: "leave this out, and type: wasmnode node eligibility -disable"},
	{Key: "client.disk_free_mb", Why: measured},
	{Key: "client.disk_total_mb", Why: measured},
	{Key: "client.drain_on_shutdown", Why: "tasks go on while the agent is not there: type: wasmnode node drain -enable"},
	{Key: "client.enabled", As: []string{"true"}, Refused: true, Why: "an agent is a server and a client in one: leave this out, and to have it run nothing, type: wasmnode node eligibility -disable"},
	{Key: "client.fingerprint", Why: onlyMachine},
	{Key: "client.gc_volumes_on_node_gc", As: []string{"false"}, Why: "volumes of a node that is gone are forgotten when it is purged"},
	{Key: "client.intro_token", Refused: true, Why: "write the token to the file intro_token.jwt in data_dir"},
	{Key: "client.log_file", Why: toStderr},
	{Key: "client.max_dynamic_port", As: []string{"32000"}, Refused: true, Why: "ports are given from 20000 to 32000: client.reserved.reserved_ports keeps some back"},
	{Key: "client.memory_total_mb", Why: measured},
	{Key: "client.min_dynamic_port", As: []string{"20000"}, Refused: true, Why: "ports are given from 20000 to 32000: client.reserved.reserved_ports keeps some back"},
	{Key: "client.network_interface", Why: "ports are on the address of the default route, or of the host_network that they name"},
	{Key: "client.network_speed", Why: "bandwidth is not given to tasks"},
	{Key: "client.no_host_uuid", As: []string{"true"}, Why: "the node's ID is its own"},
	{Key: "client.node_max_allocs", As: []string{"0"}, Why: "as many allocations run as there is room for"},
	{Key: "client.nomad_service_discovery", As: []string{"true"}, Why: "services are told to whoever asks"},
	{Key: "client.preferred_address_family", Why: "a network's first address is taken"},
	{Key: "client.reservable_cores", Why: measured},
	{Key: "client.server_join.retry_interval", Why: "the waits between two tries grow to 30 s, and are jittered"},
	{Key: "client.server_join.retry_max", As: []string{"0"}, Why: "servers are tried for as long as it takes"},
	{Key: "client.server_join.start_join", As: []string{""}, Refused: true, Why: "name them in retry_join"},
	{Key: "client.state_dir", Why: byDataDir},
	{Key: "client.stats", Why: whenRead},
	{Key: "client.template.block_query_wait", Why: lookedAt},
	{Key: "client.template.consul_retry", Why: noConsul},
	{Key: "client.template.disable_file_sandbox", As: []string{"false"}, Refused: true, Why: "templates read files of their task alone: leave this out"},
	{Key: "client.template.max_stale", Why: noConsul},
	{Key: "client.template.nomad_retry", Why: lookedAt},
	{Key: "client.template.use_client_consul_token", As: []string{"false"}, Why: noConsul},
	{Key: "client.template.vault_default_lease_duration", Why: noVault},
	{Key: "client.template.vault_retry", Why: noVault},
	{Key: "client.users", Why: "tasks run as the user that they name"},

	{Key: "limits.http_max_conns_per_client", Why: "http_max_conns bounds all clients together"},
	{Key: "limits.https_handshake_timeout", Why: "a handshake has as long as a request"},
	{Key: "limits.rpc_handshake_timeout", Why: onlyHTTP},
	{Key: "limits.rpc_max_conns_per_client", Why: onlyHTTP},

	{Key: "server.acl_token_gc_threshold", Why: "tokens that have expired are removed at once"},
	{Key: "server.authoritative_region", Why: noPeers},
	{Key: "server.bootstrap_expect", As: []string{"0", "1"}, Refused: true, Why: alone},
	{Key: "server.client_introduction", Why: noPeers},
	{Key: "server.csi_plugin_gc_threshold", Why: noCSI},
	{Key: "server.csi_volume_claim_gc_interval", Why: noCSI},
	{Key: "server.csi_volume_claim_gc_threshold", Why: noCSI},
	{Key: "server.data_dir", Why: byDataDir},
	{Key: "server.deploy_query_rate_limit", Why: noPeers},
	{Key: "server.enable_event_broker", As: []string{"true"}, Why: "there are always events"},
	{Key: "server.enabled_schedulers", Why: "jobs of all types are scheduled"},
	{Key: "server.encrypt", As: []string{""}, Why: noPeers},
	{Key: "server.failover_heartbeat_ttl", Why: noPeers},
	{Key: "server.heartbeat_grace", Why: noPeers},
	{Key: "server.job_default_priority", As: []string{"50"}, Refused: true, Why: "a job without a priority has 50: leave this out, and give jobs theirs"},
	{Key: "server.job_max_count", As: []string{"50000"}, Refused: true, Why: "a job has at most 50,000 allocations: leave this out"},
	{Key: "server.job_max_priority", As: []string{"100"}, Refused: true, Why: "priorities are from 1 to 100: leave this out"},
	{Key: "server.job_max_source_size", Why: "a job's source has a bound of its own"},
	{Key: "server.job_tracked_versions", As: []string{"6"}, Why: "six versions of a job are kept"},
	{Key: "server.license_path", Why: "there is no licence to have"},
	{Key: "server.log_file", Why: toStderr},
	{Key: "server.max_heartbeats_per_second", Why: noPeers},
	{Key: "server.min_heartbeat_ttl", Why: noPeers},
	{Key: "server.non_production", Why: "nothing is sent to anybody"},
	{Key: "server.non_voting_server", Why: noPeers},
	{Key: "server.num_schedulers", Why: "one evaluation is worked on after another"},
	{Key: "server.plan_apply_pipeline", Why: noPeers},
	{Key: "server.plan_rejection_tracker", Why: noPeers},
	{Key: "server.protocol_version", Why: noPeers},
	{Key: "server.raft_boltdb", Why: noPeers},
	{Key: "server.raft_logstore", Why: noPeers},
	{Key: "server.raft_multiplier", Why: noPeers},
	{Key: "server.raft_protocol", Why: noPeers},
	{Key: "server.raft_snapshot_interval", Why: noPeers},
	{Key: "server.raft_snapshot_threshold", Why: noPeers},
	{Key: "server.raft_trailing_logs", Why: noPeers},
	{Key: "server.redundancy_zone", Why: noPeers},
	{Key: "server.rejoin_after_leave", Why: noPeers},
	{Key: "server.retry_interval", Why: noPeers},
	{Key: "server.retry_join", As: []string{""}, Refused: true, Why: alone},
	{Key: "server.retry_max", Why: noPeers},
	{Key: "server.root_key_gc_interval", Why: "keys are removed by hand"},
	{Key: "server.root_key_gc_threshold", Why: "keys are removed by hand"},
	{Key: "server.root_key_rotation_threshold", Why: "keys are rotated by hand"},
	{Key: "server.search", Why: "searches have bounds of their own"},
	{Key: "server.server_join", Refused: true, Why: alone},
	{Key: "server.start_join", As: []string{""}, Refused: true, Why: alone},
	{Key: "server.start_timeout", Why: noPeers},
	{Key: "server.upgrade_version", Why: noPeers},

	{Key: "telemetry.allowed_metadata_keys_in_metrics", Why: noMetaLabels},
	{Key: "telemetry.circonus_api_app", Why: atMetrics},
	{Key: "telemetry.circonus_api_token", Why: atMetrics},
	{Key: "telemetry.circonus_api_url", Why: atMetrics},
	{Key: "telemetry.circonus_broker_id", Why: atMetrics},
	{Key: "telemetry.circonus_broker_select_tag", Why: atMetrics},
	{Key: "telemetry.circonus_check_display_name", Why: atMetrics},
	{Key: "telemetry.circonus_check_force_metric_activation", Why: atMetrics},
	{Key: "telemetry.circonus_check_id", Why: atMetrics},
	{Key: "telemetry.circonus_check_instance_id", Why: atMetrics},
	{Key: "telemetry.circonus_check_search_tag", Why: atMetrics},
	{Key: "telemetry.circonus_check_tags", Why: atMetrics},
	{Key: "telemetry.circonus_submission_interval", Why: atMetrics},
	{Key: "telemetry.circonus_submission_url", Why: atMetrics},
	{Key: "telemetry.collection_interval", Why: whenRead},
	{Key: "telemetry.datadog_address", Why: atMetrics},
	{Key: "telemetry.datadog_tags", Why: atMetrics},
	{Key: "telemetry.disable_allocation_hook_metrics", As: []string{"true"}, Why: "there are none of hooks"},
	{Key: "telemetry.disable_quota_utilization_metrics", As: []string{"true"}, Why: "there are none of quotas"},
	{Key: "telemetry.disable_rpc_rate_metrics_labels", As: []string{"true"}, Why: "requests are counted without such labels"},
	{Key: "telemetry.in_memory_collection_interval", Why: whenRead},
	{Key: "telemetry.in_memory_retention_period", Why: whenRead},
	{Key: "telemetry.include_alloc_metadata_in_metrics", As: []string{"false"}, Why: noMetaLabels},
	{Key: "telemetry.prometheus_metrics", As: []string{"true"}, Why: "metrics are always there for Prometheus"},
	{Key: "telemetry.statsd_address", Why: atMetrics},
	{Key: "telemetry.statsite_address", Why: atMetrics},

	{Key: "tls.rpc_upgrade_mode", As: []string{"false"}, Why: onlyHTTP},
	{Key: "tls.tls_cipher_suites", Why: "those of Go's that are safe are used"},
	{Key: "tls.tls_min_version", As: []string{"tls12"}, Why: "TLS 1.2 is the least"},

	{Key: "ui.consul", Why: noConsul},
	{Key: "ui.content_security_policy", Why: "the page loads and runs nothing but its own files"},
	{Key: "ui.label", Why: "the page names the node"},
	{Key: "ui.show_cli_hints", As: []string{"false"}, Why: "commands print no links: ui does"},
	{Key: "ui.vault", Why: noVault},
}

// NomadKeys returns what is known of Nomad's agent configuration and has no part here.
func NomadKeys() []NomadKey { return slices.Clone(nomadKeys) }

// nomad takes out of a file's body what is Nomad's and not this agent's, and tells of each what
// is the case instead.
func (l *loader) nomad(body *hclsyntax.Body, path string) {
	for name, a := range body.Attributes {
		if k := nomadKey(path + name); k != nil {
			delete(body.Attributes, name)
			l.tell(k, path+name, a.SrcRange, l.text(a.Expr))
		}
	}
	body.Blocks = slices.DeleteFunc(body.Blocks, func(b *hclsyntax.Block) bool {
		name := path + b.Type
		if len(b.Labels) == 1 && nomadKey(name+` "`+b.Labels[0]+`"`) != nil {
			name += ` "` + b.Labels[0] + `"`
		}
		k := nomadKey(name)
		switch {
		case b.Type == "config" && path == "plugin.": // what is in it is the plugin's
			return false
		case k == nil, partly(name):
			l.nomad(b.Body, name+".")
			return k != nil
		}
		l.tell(k, name, b.DefRange(), "")
		return true
	})
}

// nomadKey returns what is known of a key, or of the nearest block that it is in; nil: it is
// none of Nomad's that has no part here.
func nomadKey(key string) *NomadKey {
	for {
		if i := slices.IndexFunc(nomadKeys, func(k NomadKey) bool { return k.Key == key }); i >= 0 {
			return &nomadKeys[i]
		}
		block := strings.LastIndexByte(key, '.')
		if block < 0 {
			return nil
		}
		key = key[:block]
	}
}

// partly reports whether something in a block has a line of its own.
func partly(block string) bool {
	return slices.ContainsFunc(nomadKeys, func(k NomadKey) bool { return strings.HasPrefix(k.Key, block+".") })
}

// tell warns of a key or refuses it, unless its value is how the agent is.
func (l *loader) tell(k *NomadKey, name string, at hcl.Range, value string) {
	if slices.Contains(k.As, value) {
		return
	}
	diags := hclvalue.Errorf(at, "%s has no effect: %s", name, k.Why)
	if k.Refused {
		diags = hclvalue.Errorf(at, "%s cannot be done: %s", name, k.Why)
	} else {
		diags[0].Severity = hcl.DiagWarning
	}
	l.diags = append(l.diags, diags...)
}

// warnings are what there is to say of what was read. What is of no use to an only server is the
// servers' own where the agent joins others.
func (l *loader) warnings(joined bool) []string {
	all := hclvalue.Warnings(l.diags)
	if joined {
		for i, warning := range all {
			all[i] = strings.Replace(warning, noPeers, joins, 1)
		}
	}
	return all
}

// text is a value as a text, empty for what is null or has nothing in it. What cannot be
// evaluated is a fault.
func (l *loader) text(expr hclsyntax.Expression) string {
	v, diags := expr.Value(nil)
	l.diags = append(l.diags, diags...)
	if diags.HasErrors() || v.IsNull() || v.CanIterateElements() && v.LengthInt() == 0 {
		return ""
	}
	text, err := convert.Convert(v, cty.String)
	if err != nil {
		return "a value"
	}
	return text.AsString()
}
