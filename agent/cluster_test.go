package agent

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/controlplane/cluster"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/internal/certtest"
	"github.com/wasmnode/wasmnode/node/controlplanetest"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// nowhere is a server that there is not.
var nowhere = []string{"127.0.0.1:1"}

// stored is an agent of which only the files are open.
func stored(t *testing.T) *agent {
	t.Helper()
	dir := t.TempDir()
	a := &agent{cfg: config.Default(), logger: hclog.NewNullLogger()}
	a.cfg.DataDir = dir
	var err error
	a.state, err = state.Open(filepath.Join(dir, "client.db"), state.Options{})
	require.NoError(t, err)
	a.closing("state", a.state.Close)
	a.plane, err = standalone.Open(standalone.Options{Path: filepath.Join(dir, "server.db")})
	require.NoError(t, err)
	a.closing("control plane", a.plane.Close)
	t.Cleanup(a.close)
	return a
}

func TestADataDirectoryIsOfOneControlPlane(t *testing.T) {
	a := stored(t)
	_, err := a.plane.ForNode().Register(t.Context(), controlplanetest.Node())
	require.NoError(t, err)
	job := &nomad.Job{
		ID: new("j"), Type: new("batch"),
		TaskGroups: []*nomad.TaskGroup{{Name: new("g"), Tasks: []*nomad.Task{{Name: "t", Driver: "mock"}}}},
	}
	_, err = a.plane.RegisterJob(&structs.JobRegistration{Job: job})
	require.NoError(t, err)
	require.NoError(t, a.join(), "alone it goes on")
	require.Nil(t, a.cluster)
	a.cfg.Client.Servers = nowhere
	require.ErrorContains(t, a.join(), "has allocations (1) that this agent has scheduled itself and that have not ended: stop their jobs")
	require.NoFileExists(t, filepath.Join(a.cfg.DataDir, memberFile))
	require.False(t, *a.plane.Jobs()[0].Stop)
	one := a.plane.Allocations()[0]
	require.NoError(t, a.plane.ForNode().UpdateAllocations(t.Context(), one.NodeID, []*structs.AllocationState{{ID: one.ID, ClientStatus: structs.ClientComplete}}))
	require.NoError(t, a.join())
	require.NotNil(t, a.cluster)
	region, err := cluster.Note(filepath.Join(a.cfg.DataDir, memberFile))
	require.NoError(t, err)
	require.Equal(t, "global", region)

	stopping := stored(t)
	_, err = stopping.plane.ForNode().Register(t.Context(), controlplanetest.Node())
	require.NoError(t, err)
	for _, id := range []string{"j", "k"} {
		job.ID = &id
		_, err = stopping.plane.RegisterJob(&structs.JobRegistration{Job: job})
		require.NoError(t, err)
	}
	stopping.cfg.Client.Servers, stopping.cfg.Client.StandaloneJobs = nowhere, config.StopStandaloneJobs
	require.NoError(t, stopping.join())
	require.NotNil(t, stopping.cluster)
	for _, j := range stopping.plane.Jobs() {
		require.True(t, *j.Stop, *j.ID)
	}
	// Before servers were heard, which would have stopped them, the way back is open.
	own := stopping.plane.Allocations()[0]
	require.NoError(t, stopping.state.PutAllocation(own))
	require.NoError(t, stopping.cluster.Close())
	stopping.cluster, stopping.cfg.Client.Servers = nil, nil
	require.NoError(t, stopping.join())
	require.Nil(t, stopping.cluster)
	require.NoFileExists(t, filepath.Join(stopping.cfg.DataDir, memberFile))

	back := stored(t)
	require.NoError(t, os.WriteFile(filepath.Join(back.cfg.DataDir, memberFile), []byte("global\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(back.cfg.DataDir, tokenFile), []byte("token\n"), 0o600))
	require.NoError(t, back.state.PutAllocation(one))
	require.ErrorContains(t, back.join(), `has allocations (1) of a cluster's region "global": name its servers`)
	back.cfg.Client.Servers, back.cfg.Region = nowhere, "other"
	require.ErrorContains(t, back.join(), `has allocations (1) of region "global", and region is "other"`)
	require.NoError(t, back.state.DeleteAllocation(one.ID))
	back.cfg.Client.Servers = nil
	require.NoError(t, back.join())
	require.NoFileExists(t, filepath.Join(back.cfg.DataDir, memberFile))
	require.NoFileExists(t, filepath.Join(back.cfg.DataDir, tokenFile))
}

func TestOnlyServersOfTheAuthorityAreTaken(t *testing.T) {
	ours, others := certtest.NewAuthority(t), certtest.NewAuthority(t)
	for name, c := range map[string]struct {
		signer *certtest.Authority
		name   string
		verify bool
		fault  string
	}{
		"a server of the region":           {ours, "server.global.nomad", true, ""},
		"one of another region":            {ours, "server.other.nomad", true, "not server.global.nomad"},
		"any of the authority's":           {ours, "server.other.nomad", false, ""},
		"another authority's":              {others, "server.global.nomad", true, "unknown authority"},
		"another's, whatever it is called": {others, "server.global.nomad", false, "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			cert, key := c.signer.Write(t, t.TempDir(), c.name)
			pair, err := tls.LoadX509KeyPair(cert, key)
			require.NoError(t, err)
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
			require.NoError(t, err)
			defer l.Close()
			var serving sync.WaitGroup
			serving.Go(func() {
				conn, err := l.Accept()
				if err == nil {
					_ = conn.(*tls.Conn).Handshake()
					_ = conn.Close()
				}
			})
			near, err := net.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			secured, err := serverTLS(config.TLS{RPC: true, CAFile: ours.File(t), VerifyServerHostname: c.verify}, "global")
			require.NoError(t, err)
			err = tls.Client(near, secured).HandshakeContext(t.Context())
			_ = near.Close()
			serving.Wait()
			if c.fault == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.fault)
			}
		})
	}
	none, err := serverTLS(config.TLS{}, "global")
	require.NoError(t, err)
	require.Nil(t, none)
	empty := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = serverTLS(config.TLS{RPC: true, CAFile: empty}, "global")
	require.True(t, err != nil && strings.HasSuffix(err.Error(), "has no certificate in PEM"))
}

func TestThatNoServerAnswersIsACondition(t *testing.T) {
	a := stored(t)
	require.Empty(t, a.serverConditions())
	a.cfg.Client.Servers = nowhere
	before := time.Now()
	require.NoError(t, a.join())
	var is []structs.Condition
	require.Eventually(t, func() bool {
		is = a.serverConditions()
		return len(is) == 1 && strings.Contains(is[0].Text, "refused")
	}, time.Minute, time.Millisecond)
	require.Equal(t, "no server of the cluster answers (it cannot be reached: connect: connection refused): what runs goes on", is[0].Text)
	require.Equal(t, "look at the server, at the network to it, and at client.servers", is[0].Remedy)
	require.WithinRange(t, is[0].Since, before, time.Now())
	require.False(t, is[0].Unhealthy, "tasks run on")
}
