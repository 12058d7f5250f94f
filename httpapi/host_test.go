package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/clientapi"
)

var aMachine = clientapi.Machine{
	OS: "x86_64 here", Resolver: "nameserver ::1\n", Hosts: "::1 here\n", Environment: map[string]string{"TOKEN": "<redacted>"},
	Addresses: []clientapi.InterfaceAddress{
		{Interface: "eth0", Prefix: netip.MustParsePrefix("192.0.2.9/28")}, {Interface: "eth0", Prefix: netip.MustParsePrefix("fd00::2/64")},
	},
	Disks: []clientapi.Disk{{Path: "/", Total: 10 << 20, Used: 3 << 20}},
}

// aJournal has what was asked for in it. What follows does not end before its reader.
func aJournal(ctx context.Context, q clientapi.JournalQuery) (io.ReadCloser, error) {
	switch {
	case q.Service == "nomad-none":
		return nil, errors.New("there is none")
	case q.Follow:
		lines, into := io.Pipe()
		context.AfterFunc(ctx, func() { _ = into.Close() })
		go func() { _, _ = io.WriteString(into, "first\n") }() // until it is read, or closed
		return lines, nil
	}
	return io.NopCloser(strings.NewReader(q.Service + " " + q.Since.String() + "\n")), nil
}

func TestNomadsClientAsksForTheMachine(t *testing.T) {
	_, c, url := logging(t, true)
	for _, id := range [][2]string{{"leader", ""}, {"", "node"}} {
		host, err := c.Agent().Host(id[0], id[1], nil)
		require.NoError(t, err)
		require.Equal(t, id[0]+id[1], host.AgentID)
		require.Equal(t, &nomad.HostData{
			OS: "x86_64 here", ResolvConf: "nameserver ::1\n", Hosts: "::1 here\n", Environment: map[string]string{"TOKEN": "<redacted>"},
			Network: []map[string]string{
				{"name": "eth0", "address": "192.0.2.9", "host": "192.0.2.9", "string": "192.0.2.9/28", "port": "0", "mask_bits": "28",
					"network": "192.0.2.0", "netmask": "255.255.255.240", "broadcast": "192.0.2.15", "type": "IPv4"},
				{"name": "eth0", "address": "fd00::2", "host": "fd00::2", "string": "fd00::2/64", "port": "0", "mask_bits": "64",
					"network": "fd00::", "type": "IPv6"},
			},
			Disk: map[string]nomad.DiskUsage{"/": {DiskMB: 10, UsedMB: 3}},
		}, host.HostData)
	}
	status, body := ask(t, url+"/v1/agent/host")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `{"OS":"x86_64 here"`, "Nomad leaves the ID out for who names none")
	status, body = ask(t, url+"/v1/agent/host?node_id=other")
	require.Equal(t, http.StatusNotFound, status, body)
	_, _, url = logging(t, false)
	status, body = ask(t, url+"/v1/agent/host")
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, "Permission denied: set enable_debug in the agent's configuration", body)
}

func ask(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}

// The texts are those that Nomad 2.0.5 answered with.
func TestTheJournalIsExported(t *testing.T) {
	_, c, url := logging(t, false)
	for _, q := range []struct {
		query  string
		status int
		body   string
	}{
		{"service_name=nomad&plain=true", 200, "nomad 72h0m0s\n"},
		{"service_name=wasmnode.service&logs_since=4h&plain=true", 200, "wasmnode.service 4h0m0s\n"},
		{"service_name=nomad-none", 400, "the journal cannot be read: there is none"},
		{"", 400, "Either -service-name or -on-disk must be set"},
		{"on_disk=true", 400, "No nomad log file defined"},
		{"on_disk=true&service_name=nomad", 400, "Cannot target journald and nomad log file simultaneously"},
		{"on_disk=true&follow=true", 400, "Cannot follow log file"},
		{"service_name=nomad&logs_since=4", 400, `Unknown value for logs-since: time: missing unit in duration "4"`},
		{"service_name=nomad&logs_since=-4h", 400, `Unknown value for logs-since: -4h is not a second ago`},
		{"service_name=nomad&node_id=x&server_id=y", 400, "Cannot target node and server simultaneously"},
		{"service_name=sshd", 422, "service name must include 'wasmnode' or 'nomad'"},
		{"service_name=-nomad", 422, "service name is not the name of a unit of systemd"},
		{"service_name=nomad*", 422, "service name is not the name of a unit of systemd"},
	} {
		status, body := ask(t, url+"/v1/agent/monitor/export?"+q.query)
		require.Equal(t, q.body, body, q.query)
		require.Equal(t, q.status, status, q.query)
	}
	stop := make(chan struct{})
	defer close(stop)
	follow := &nomad.QueryOptions{Params: map[string]string{"service_name": "nomad", "follow": "true"}}
	for range 4 {
		frames, _ := c.Agent().MonitorExport(stop, follow)
		frame := <-frames
		require.Equal(t, "first\n", string(frame.Data))
		require.EqualValues(t, 6, frame.Offset)
	}
	status, body := ask(t, url+"/v1/agent/monitor/export?service_name=nomad")
	require.Equal(t, http.StatusTooManyRequests, status, body)
}
