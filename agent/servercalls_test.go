package agent_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
)

// madeVolume is the ID of a volume that a server has the node make.
const madeVolume = "00000000-0000-4000-8000-000000000001"

// object is a map of a message.
type object = map[string]any

// clusterServer is a server of a cluster: it lets a node in and has nothing for it to run. The
// node's connection is sent to joined once it has asked for allocations.
type clusterServer struct {
	address string
	joined  chan *wire.Session

	mu       sync.Mutex
	renewals int
	tokens   []string // that jobs were asked for with
}

func startClusterServer(t *testing.T) *clusterServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &clusterServer{address: l.Addr().String(), joined: make(chan *wire.Session, 1)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			asked := make(chan struct{})
			session, err := wire.Accept(context.Background(), conn, wire.Options{Handler: s.handler(sync.OnceFunc(func() { close(asked) }))})
			if err != nil {
				continue
			}
			running.Go(func() {
				defer session.Close()
				select {
				case <-asked:
					select {
					case s.joined <- session:
					default:
					}
				case <-session.Done():
				}
				<-session.Done()
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return s
}

func (s *clusterServer) handler(asked func()) *wire.Handler {
	token := "h." + base64.RawURLEncoding.EncodeToString([]byte(`{"nomad_node_pool":"default"}`)) + ".s"
	return &wire.Handler{Call: func(ctx context.Context, method string, decode func(any) error) (any, error) {
		var args struct {
			ForceIdentityRenewal bool
			MinQueryIndex        uint64
			AuthToken            string
		}
		if err := decode(&args); err != nil {
			return nil, err
		}
		switch method {
		case "Job.List":
			s.mu.Lock()
			s.tokens = append(s.tokens, args.AuthToken)
			s.mu.Unlock()
		case "Node.Register", "Node.UpdateStatus":
			if args.ForceIdentityRenewal {
				s.mu.Lock()
				s.renewals++
				s.mu.Unlock()
			}
			return object{"HeartbeatTTL": time.Second, "SignedIdentity": token, "Index": 0}, nil
		case "Node.GetClientAllocs":
			asked()
			if args.MinQueryIndex > 0 {
				<-ctx.Done()
			}
			return object{"Allocs": object{}, "Index": 5}, nil
		}
		return object{}, nil
	}}
}

func TestAServerAsksTheNodeThatHasJoinedIt(t *testing.T) {
	s := startClusterServer(t)
	dir := t.TempDir()
	config, data, plugins := filepath.Join(dir, "cluster.hcl"), filepath.Join(dir, "data"), filepath.Join(dir, "plugins")
	require.NoError(t, errors.Join(os.Mkdir(data, 0o700), os.Mkdir(plugins, 0o700)))
	require.NoError(t, os.WriteFile(config, []byte(`client { servers = ["`+s.address+`"] }`), 0o600))
	address := agenttest.Run(t, agent.Options{ConfigPaths: []string{config}, DataDir: data, PluginDir: plugins, HTTPAddr: "127.0.0.1:0", LogOutput: t.Output()})
	node := <-s.joined
	ask := func(method string, args object) object {
		var reply object
		require.NoError(t, node.Call(t.Context(), method, args, &reply), method)
		return reply
	}
	for path, want := range map[string]int{"/v1/client/stats": 200, "/v1/jobs": 200, "/v1/system/gc": 200, "/v1/agent/join": 501, "/ui/plugins": 200} {
		method := http.MethodGet
		if path == "/v1/system/gc" || want == http.StatusNotImplemented {
			method = http.MethodPut
		}
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
		require.NoError(t, err)
		request.Header.Set("X-Nomad-Token", "of-the-caller")
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode, path)
	}
	s.mu.Lock()
	require.Contains(t, s.tokens, "of-the-caller")
	s.mu.Unlock()
	require.Contains(t, ask("ClientStats.Stats", nil), "HostStats")
	require.Contains(t, ask("Agent.Host", nil), "HostData")
	require.Equal(t, object{"color": "red"}, ask("NodeMeta.Apply", object{"Meta": object{"color": "red"}})["Meta"])
	require.Equal(t, object{"nomad_node_pool": "default"}, ask("NodeIdentity.Get", nil)["Claims"])
	ask("NodeIdentity.Renew", nil)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.renewals == 1
	}, time.Minute, time.Millisecond)
	made, _ := ask("HostVolume.Create", object{"ID": madeVolume, "Name": "data", "PluginID": "mkdir"})["HostPath"].(string)
	require.DirExists(t, made)
	kept, err := os.ReadFile(filepath.Join(data, "cluster.volumes"))
	require.NoError(t, err)
	require.Contains(t, string(kept), madeVolume)
	require.ErrorContains(t, node.Call(t.Context(), "Agent.Profile", object{"ReqType": "cmdline"}, nil), "Permission denied")
	require.ErrorContains(t, node.Call(t.Context(), "Allocations.Stats", object{"AllocID": "none"}, nil), `Unknown allocation "none"`)

	st, err := node.Open(t.Context(), "Agent.Monitor", object{"PlainText": true})
	require.NoError(t, err)
	_, err = st.Receive()
	require.NoError(t, err)
	ask("HostVolume.Delete", object{"ID": madeVolume, "Name": "data", "PluginID": "mkdir"})
	for line := ""; !strings.Contains(line, "a host volume was removed"); {
		next, err := st.Receive()
		require.NoError(t, err)
		line = string(next)
	}
}
