package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMetadataOfANodeOutlivesItsAgent(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	n.out(t, "node", "meta", "apply", "rack=7", "zone=north")
	n.out(t, "node", "meta", "apply", "-unset", "zone,nothing", "rack=8")
	n.signal(t, syscall.SIGKILL)
	n = s.start(t)
	assert.Equal(t, "\nAll Meta\nrack = 8\n\nDynamic Meta\nrack = 8\n\nStatic Meta\n<none>\n", n.out(t, "node", "meta", "read"))
	assert.Equal(t, "8\n", n.out(t, "node", "meta", "read", "-t", "{{.Meta.rack}}"))
	assert.Equal(t, "8", n.self(t).Meta["rack"])
	r := n.run(t, "node", "meta", "apply", "rack")
	assert.Equal(t, 1, r.code)
	assert.Equal(t, "Error: \"rack\" is not of the form KEY=VALUE\n", r.stderr)
}

func TestNodePoolsOnTheCommandLine(t *testing.T) {
	n := newSite(t, "mock").start(t)
	file := filepath.Join(t.TempDir(), "pool.nomad.hcl")
	n.out(t, "node", "pool", "init", file)
	assert.Equal(t, 1, n.run(t, "node", "pool", "init", file).code, "it is there")
	assert.Equal(t, "Successfully applied node pool \"example\"!\n", n.out(t, "node", "pool", "apply", file))
	assert.Regexp(t, `(?m)^example +Example node pool$`, n.out(t, "node", "pool", "list"))
	assert.Contains(t, n.out(t, "node", "pool", "info", "example"), "owner = platform")
	assert.Equal(t, "No nodes\n", n.out(t, "node", "pool", "nodes", "example"))
	assert.Equal(t, "No jobs\n", n.out(t, "node", "pool", "jobs", "example"))
	assert.Contains(t, n.out(t, "node", "pool", "nodes", "default"), "ready")
	n.out(t, "job", "run", "-detach", writeJob(t, "web", "service", "mock_driver", `run_for = "1h"`))
	assert.Regexp(t, `(?m)^web +service +50`, n.out(t, "node", "pool", "jobs", "default"))
	assert.Equal(t, "example\n", n.out(t, "node", "pool", "list", "-filter", `Name == "example"`, "-t", "{{range .}}{{.Name}}{{end}}"))
	assert.Equal(t, "Successfully deleted node pool \"example\"!\n", n.out(t, "node", "pool", "delete", "example"))
	assert.Equal(t, "Error: node pool not found\n", n.run(t, "node", "pool", "info", "example").stderr)
	for text, want := range map[string]string{
		`node_pool "p" {` + "\n" + `scheduler_config {` + "\n" + `scheduler_algorithm = "spread"` + "\n}\n}": "unlicensed",
		`node_pool "p" { colour = "red" }`: "colour",
		``:                                 "no node_pool block",
	} {
		r := n.run(t, "node", "pool", "apply", write(t, file+"2", text))
		assert.Equal(t, 1, r.code, text)
		assert.Contains(t, r.stderr, want)
	}
}

func TestWhatIsOfServersAndOfEnterprise(t *testing.T) {
	n := newSite(t, "mock").start(t)
	assert.Regexp(t, `alive +true `, n.out(t, "server", "members"))
	assert.Equal(t, n.address+"\n", n.out(t, "node", "config", "-servers"))
	assert.Contains(t, n.out(t, "agent-info"), "  leader = true\n")
	n.out(t, "system", "reconcile", "summaries")
	assert.Equal(t, `["global"]`, n.out(t, "operator", "api", "/v1/regions"))
	assert.Equal(t, `["global"]`, n.out(t, "operator", "api", n.address+"/v1/regions"))
	assert.Equal(t, "[]", n.out(t, "operator", "api", "-filter", `ID == "none"`, "/v1/jobs"))
	assert.Equal(t, "no such endpoint: /v1/none", n.out(t, "operator", "api", "/v1/none"))
	assert.Contains(t, n.out(t, "operator", "api", "-dryrun", "-X", "DELETE", "-H", "A: b c", "/v1/job/x"), "curl -X DELETE -H 'A: b c' http://"+n.address+"/v1/job/x")
	assert.Contains(t, n.out(t, "operator", "metrics", "-format", "prometheus"), "# TYPE ")
	assert.Contains(t, n.out(t, "operator", "metrics"), `"Gauges":[`)
	assert.NotEqual(t, "0\n", n.out(t, "operator", "metrics", "-t", "{{len .Gauges}}"))
	for line, want := range map[string]string{
		"server join 10.0.0.1":                                "is its own server",
		"server force-leave x":                                "is its own server",
		"node config -update-servers x":                       "client.servers",
		"login -method=x -type JWT":                           "no ways to log in but tokens",
		"node identity renew -self":                           "is its own server",
		"operator gossip keyring list":                        "gossip has no keys",
		"operator raft remove-peer":                           "-peer-id",
		"operator raft remove-peer -peer-id x":                `id "x" was not found in the Raft configuration`,
		"operator raft transfer-leadership -peer-id x":        `id "x" was not found in the Raft configuration`,
		"operator raft transfer-leadership":                   "-peer-id or -peer-address",
		"operator autopilot set-config -min-quorum 3":         "its configuration cannot be changed",
		"operator autopilot set-config -max-trailing-logs -1": "invalid value",
		"operator client-state /nowhere":                      "no such file",
		"operator utilization":                                "Nomad Enterprise only endpoint",
		"quota list":                                          "Nomad Enterprise only endpoint",
		"sentinel apply a b":                                  "Nomad Enterprise only endpoint",
		"recommendation list":                                 "Nomad Enterprise only endpoint",
		"license get":                                         "204",
		"node status -json -t {{.}}":                          "two forms",
		"node pool list -filter Nope==1":                      "Nope",
	} {
		r := n.run(t, strings.Fields(line)...)
		assert.Equal(t, 1, r.code, line)
		assert.Contains(t, r.stderr, want, line)
	}
	id := n.self(t).ID
	assert.Regexp(t, `(?m)^\S+ +`+id+` +`+n.address+` +leader +true +3$`, n.out(t, "operator", "raft", "list-peers"))
	assert.Contains(t, n.out(t, "operator", "raft", "transfer-leadership", "-peer-id", id), "Transferred leadership")
	assert.Contains(t, n.out(t, "operator", "raft", "transfer-leadership", "-peer-address", n.address), "Transferred leadership")
	assert.Regexp(t, `(?m)^MaxTrailingLogs += 250$`, n.out(t, "operator", "autopilot", "get-config"))
	assert.Equal(t, "Configuration updated!\n", n.out(t, "operator", "autopilot", "set-config", "-max-trailing-logs=250", "-last-contact-threshold", "200ms"))
	assert.Regexp(t, `(?m)^Healthy += true$`, n.out(t, "operator", "autopilot", "health"))
	assert.Equal(t, id[:8]+"\n", n.out(t, "node", "status", "-quiet"))
	assert.Regexp(t, `OS +Running Allocs\n.* 0\n$`, n.out(t, "node", "status", "-os", "-allocs"))
	short := n.out(t, "node-status", "-self", "-short")
	require.NotContains(t, short, "\nDrivers\n")
	require.Contains(t, short, "Allocations")
}
