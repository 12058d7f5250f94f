package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAVolumesFileIsHCLOrJSON(t *testing.T) {
	full := &nomad.HostVolume{
		Namespace: "prod", Name: "data", PluginID: "mkdir", NodePool: "p", NodeID: "n", HostPath: "/x",
		CapacityBytes: 5, RequestedCapacityMinBytes: 10 << 30, RequestedCapacityMaxBytes: 20_000_000_000,
		RequestedCapabilities: []*nomad.HostVolumeCapability{
			{AccessMode: "single-node-writer", AttachmentMode: "file-system"}, {AccessMode: "single-node-reader-only", AttachmentMode: "block-device"},
		},
		Constraints: []*nomad.Constraint{
			{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="},
			{LTarget: "${attr.kernel.version}", RTarget: ">= 5", Operand: "version"},
			{LTarget: "${meta.rack}", Operand: "distinct_property"},
		},
		Parameters: map[string]string{"mode": "0755", "100%": "${x}%{y}"},
	}
	hcl := `type = "host"
namespace = "prod"
name = "data"
plugin_id = "mkdir"
node_pool = "p"
node_id = "n"
host_path = "/x"
capacity = 5
capacity_min = "10GiB"
capacity_max = "20G"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
capability {
  access_mode = "single-node-reader-only"
  attachment_mode = "block-device"
}
constraint {
  attribute = "${attr.kernel.name}"
  value = "linux"
}
constraint {
  attribute = "${attr.kernel.version}"
  version = ">= 5"
}
constraint {
  distinct_property = "${meta.rack}"
}
constraint {
  distinct_hosts = false
}
`
	for name, text := range map[string]string{
		"an attribute": hcl + "parameters = {\n \"mode\" = \"0755\"\n \"100%\" = \"${x}%{y}\"\n}\n",
		"JSON": `{"type": "host", "namespace": "prod", "name": "data", "plugin_id": "mkdir", "node_pool": "p", "node_id": "n", "host_path": "/x",
			"capacity": 5, "capacity_min": "10GiB", "capacity_max": "20G",
			"capability": [{"access_mode": "single-node-writer", "attachment_mode": "file-system"}, {"access_mode": "single-node-reader-only", "attachment_mode": "block-device"}],
			"constraint": [{"attribute": "${attr.kernel.name}", "value": "linux"}, {"attribute": "${attr.kernel.version}", "version": ">= 5"}, {"distinct_property": "${meta.rack}"}],
			"parameters": {"mode": "0755", "100%": "${x}%{y}"}}`,
	} {
		v, err := decodeVolume("v", []byte(text))
		require.NoError(t, err, name)
		require.Equal(t, full, v, name)
	}
	block, err := decodeVolume("v", []byte("type = \"host\"\nparameters {\n mode = \"0700\"\n}"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"mode": "0700"}, block.Parameters)
	for text, fault := range map[string]string{
		`name = "x"`:                                  `v: it has no type: type = "host"`,
		`type = "csi"`:                                `v: there are no CSI volumes: volumes here are of the type "host"`,
		"type = \"CSI\"\nsecrets {\n}":                `v: there are no CSI volumes: volumes here are of the type "host"`,
		`type = "nfs"`:                                `v: unknown volume type: "nfs": it is "host"`,
		"type = \"host\"\nplugin = 1":                 `v:2,1: Unsupported argument; An argument named "plugin" is not expected here.`,
		"type = \"host\"\ncapacity_min = \"lots\"":    `v: invalid capacity_min: "lots" is no size such as "10GiB"`,
		"type = \"host\"\ncapacity = \"-1\"":          `v: invalid capacity: "-1" is no size such as "10GiB"`,
		"type = \"host\"\ncapability {\n mode = 1\n}": `v:3,2: Unsupported argument; An argument named "mode" is not expected here.`,
		`type =`: "v:1,7: Missing expression; ",
		`{`:      "v:1,2: ",
	} {
		_, err := decodeVolume("v", []byte(text))
		require.ErrorContains(t, err, fault, text)
		require.NotContains(t, err.Error(), "\n")
	}
}

// slowPlugin makes volumes once a file is there, and says when it was asked.
const slowPlugin = `#!/bin/sh
case $1 in
fingerprint) echo '{"version": "1.0.0"}' ;;
create)
  echo asked > "$DHV_PLUGIN_DIR/../asked"
  [ -e "$DHV_PLUGIN_DIR/../go" ] || exec sleep 1000
  mkdir -p "$DHV_VOLUMES_DIR/slow"
  echo '{"path": "'"$DHV_VOLUMES_DIR/slow"'", "bytes": 1024}' ;;
esac
`

func TestVolumesOnTheCommandLine(t *testing.T) {
	s := newSite(t)
	require.NoError(t, os.MkdirAll(filepath.Join(s.data, "host_volume_plugins"), 0o700))
	require.NoError(t, os.Chmod(write(t, filepath.Join(s.data, "host_volume_plugins", "slow"), slowPlugin), 0o700))
	n := s.start(t)
	dir := t.TempDir()
	spec := filepath.Join(dir, "volume.hcl")
	for _, args := range [][]string{{"volume", "init", spec}, {"volume", "init", "-json", filepath.Join(dir, "volume.json")}} {
		file := args[len(args)-1]
		assert.Equal(t, "Example volume specification written to "+file+"\n", n.out(t, args...))
		assert.Equal(t, "Error: Volume specification \""+file+"\" already exists\n", n.run(t, args...).stderr)
		created := regexp.MustCompile(`^Created host volume database with ID (\S+)\n$`).FindStringSubmatch(n.out(t, "volume", "create", file))
		require.NotNil(t, created)
		assert.Regexp(t, `^Dynamic Host Volumes\nID +Name +Namespace +Plugin ID +Node ID +Node Pool +State\n`+created[1][:8]+` +database +default +mkdir +\S{8} +default +ready\n\nContainer Storage Interface\nNo CSI volumes\n$`, n.out(t, "volume", "status"))
		shown := n.out(t, "volume", "status", "data")
		assert.Regexp(t, `^ID +=\s`+created[1]+`\nName +=\sdatabase\n(.*\n)+State +=\sready\nHost Path +=\s\S+\n\nCapabilities\nAccess Mode +Attachment Mode\nsingle-node-writer +file-system\n\nAllocations\nNo allocations placed\n$`, shown)
		assert.NotContains(t, n.out(t, "volume", "status", "-short", created[1]), "Capabilities")
		assert.Regexp(t, `\nHost Volumes\nName +ReadOnly +Source +ID\ndatabase +false +\S+ +`+created[1]+`\n`, n.out(t, "node", "status", "-self", "-verbose"))
		assert.Equal(t, "database\n", n.out(t, "volume", "status", "-t", "{{.Name}}", "database"))
		assert.Equal(t, created[1]+"\n", n.out(t, "volume", "status", "-type=host", "-t", "{{range .}}{{.ID}}{{end}}"))
		assert.Equal(t, created[1]+"\n", n.out(t, "volume", "create", "-id", created[1][:6], "-t", "{{.ID}}", file))
		assert.Equal(t, "Successfully deleted volume \""+created[1]+"\"!\n", n.out(t, "volume", "delete", "-type", "host", "database"))
	}
	assert.Equal(t, "Dynamic Host Volumes\nNo dynamic host volumes\n", n.out(t, "volume", "status", "-type=host"))
	assert.Equal(t, "No task group host volume claims found\n", n.out(t, "volume", "claim", "list"))

	csi := `there are no CSI volumes: volumes here are of the type "host"`
	for line, fault := range map[string]string{
		"volume create -policy-override x": "-policy-override: there are no Sentinel policies",
		"volume create /none":              "open /none: no such file or directory",
		"volume create -id none " + spec:   `no host volume begins with "none"`,
		"volume register " + spec:          "cannot register volume: node ID is required",
		"volume init -type csi":            csi,
		"volume init -type x":              `No such volume type "x"`,
		"volume status -type csi x":        csi,
		"volume status -type x":            `No such volume type "x"`,
		"volume status -node x y":          "-node or -node-pool options can only be used when no ID is provided",
		"volume status -type csi -node x":  "-node and -node-pool can only be used with -type host",
		"volume status x":                  `no host volume begins with "x"`,
		"volume delete x":                  `no host volume begins with "x"`,
		"volume delete -type csi x":        csi,
		"volume delete -secret a=b x":      "-secret: only CSI volumes have secrets",
		"volume deregister x":              "volume deregister: " + csi,
		"volume detach x y":                "volume detach: " + csi,
		"volume snapshot list":             "volume snapshot list: " + csi,
		"volume claim delete -y x":         `no claim begins with "x"`,
	} {
		r := n.run(t, strings.Fields(line)...)
		assert.Equal(t, 1, r.code, line)
		assert.Equal(t, "Error: "+fault+"\n", r.stderr, line)
	}

	// A volume that is being made when the agent is killed is there after its next start.
	slow := write(t, filepath.Join(dir, "slow.hcl"), "name = \"slow\"\ntype = \"host\"\nplugin_id = \"slow\"\n")
	cmd := n.command("volume", "create", slow)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(s.data, "asked")); return err == nil }, testTimeout, tick)
	assert.Regexp(t, `\bpending\b`, n.out(t, "volume", "status", "-type=host"))
	n.signal(t, syscall.SIGKILL)
	require.Error(t, cmd.Wait())
	write(t, filepath.Join(s.data, "go"), "")
	n = s.start(t)
	assert.Regexp(t, `\nCapacity += 1.0 KiB\nState +=\sready\n`, n.out(t, "volume", "status", "slow"))
	assert.DirExists(t, filepath.Join(s.data, "host_volumes", "slow"))
}
