package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/wasmnode/wasmnode/agent"
)

// nomadSwitches are the flags of Nomad 2.0.5's agent that need no value, and nomadValues those that
// have one.
const (
	nomadSwitches = `
acl-enabled client consul-auto-advertise consul-checks-use-advertise consul-client-auto-join consul-server-auto-join consul-ssl
consul-verify-ssl dev dev-connect dev-consul dev-vault eventlog log-include-location log-json rejoin server vault-enabled
vault-tls-skip-verify
`
	nomadValues = `
acl-replication-token alloc-dir alloc-mounts-dir bind bootstrap-expect client-intro-token config consul-address consul-auth
consul-ca-file consul-cert-file consul-client-failures-before-critical consul-client-failures-before-warning
consul-client-http-check-name consul-client-service-name consul-key-file consul-server-failures-before-critical
consul-server-failures-before-warning consul-server-http-check-name consul-server-rpc-check-name consul-server-serf-check-name
consul-server-service-name consul-token data-dir dc encrypt eventlog-level host-volume-plugin-dir host-volumes-dir join log-level
meta network-interface network-speed node node-class node-pool plugin-dir preferred-address-family raft-protocol region
retry-interval retry-join retry-max servers state-dir vault-address vault-ca-file vault-ca-path vault-cert-file
vault-create-from-role vault-key-file vault-namespace vault-tls-server-name
`
)

// A script that starts Nomad's agent gives flags: each is known, and takes its value as there.
func TestEveryFlagOfNomadsAgentIsKnown(t *testing.T) {
	known := agentFlags(&agent.Options{})
	for list, isSwitch := range map[string]bool{nomadSwitches: true, nomadValues: false} {
		for name := range strings.FieldsSeq(list) {
			f := known.Lookup(name)
			if assert.NotNil(t, f, name) {
				value, ok := f.Value.(interface{ IsBoolFlag() bool })
				assert.Equal(t, isSwitch, ok && value.IsBoolFlag(), name)
			}
		}
	}
	ours := map[string]bool{"http-addr": true}
	known.VisitAll(func(f *flag.Flag) {
		nomads := strings.Contains(" "+strings.Join(strings.Fields(nomadSwitches+nomadValues), " ")+" ", " "+f.Name+" ")
		assert.NotEqual(t, ours[f.Name], nomads, f.Name)
	})
}
