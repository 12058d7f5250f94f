package agent_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/internal/certtest"
)

// nomadConfigurations are files and directories in the shapes of those of Nomad's documentation.
// What each is told is in a golden file beside them.
const nomadConfigurations = "config/testdata/nomad"

// A configuration of Nomad's that is taken has an agent start with it, which does what it says
// and logs every warning; one that is refused has none start, and says what it says elsewhere.
func TestAgentsStartWithConfigurationsOfNomads(t *testing.T) {
	done := map[string]func(*testing.T, started){
		"around.hcl": func(t *testing.T, a started) {
			require.Equal(t, http.StatusNotFound, a.status(t, "/ui/"))
			for line := range strings.Lines(a.log.String()) {
				require.True(t, strings.HasPrefix(line, `{"@level":"warn"`), "%s", line)
			}
		},
		"assigned.hcl": func(t *testing.T, a started) {
			require.Equal(t, "top", a.node(t).Meta["floor"])
			require.NotContains(t, a.metrics(t), `host="`)
		},
		"demo-volume.hcl": func(t *testing.T, a started) {
			require.Contains(t, a.node(t).HostVolumes, "shared")
			require.Contains(t, a.log.String(), `plugin "docker" has no effect until there is `)
		},
		"drivers.hcl": func(t *testing.T, a started) {
			require.Contains(t, a.log.String(), `plugin "qemu" has no effect until there is `)
		},
		"files.hcl": func(*testing.T, started) {}, // what templates do with it is tested where they are rendered
		"image.hcl": func(t *testing.T, a started) { require.Equal(t, "ready", a.node(t).Status) },
		"merged": func(t *testing.T, a started) {
			n := a.node(t)
			require.Equal(t, []string{"attic-4", "north", "small", "top"}, []string{n.Name, n.Datacenter, n.NodeClass, n.Meta["floor"]})
			require.Contains(t, n.HostVolumes, "orders")
			require.Contains(t, a.metrics(t), `host="attic-4"`)
		},
		"networks.hcl": func(t *testing.T, a started) {
			networks := a.node(t).HostNetworks
			require.Equal(t, "127.0.0.0/8", networks["inside"].CIDR)
			require.Equal(t, "lo", networks["loop"].Interface)
		},
		"packaged.hcl": func(t *testing.T, a started) { require.Equal(t, "ready", a.node(t).Status) },
		"resources.hcl": func(t *testing.T, a started) {
			n := a.node(t)
			require.Equal(t, []string{"attic-2", "small", "attic"}, []string{n.Name, n.NodeClass, n.NodePool})
			require.EqualValues(t, 250, n.ReservedResources.Cpu.CpuShares)
			require.EqualValues(t, 128, n.ReservedResources.Memory.MemoryMB)
			require.Equal(t, "22,8000-8100", n.ReservedResources.Networks.ReservedHostPorts)
		},
		"secured.hcl": func(t *testing.T, a started) {
			_, _, err := a.client.Nodes().List(nil)
			require.ErrorContains(t, err, "Permission denied")
			token, _, err := a.client.ACLTokens().Bootstrap(nil)
			require.NoError(t, err)
			a.client.SetSecretID(token.SecretID)
			require.True(t, a.node(t).TLSEnabled)
		},
		"server.hcl": func(t *testing.T, a started) {
			c, _, err := a.client.Operator().SchedulerGetConfiguration(nil)
			require.NoError(t, err)
			require.Equal(t, nomad.SchedulerAlgorithmSpread, c.SchedulerConfig.SchedulerAlgorithm)
			require.True(t, c.SchedulerConfig.MemoryOversubscriptionEnabled)
			require.True(t, c.SchedulerConfig.PreemptionConfig.ServiceSchedulerEnabled)
			region, err := a.client.Agent().Region()
			require.NoError(t, err)
			require.Equal(t, "north", region)
		},
		"single.hcl": func(t *testing.T, a started) {
			n := a.node(t)
			require.Equal(t, []string{"attic", "home", "r1"}, []string{n.Name, n.Datacenter, n.Meta["rack"]})
		},
		"templated.hcl": func(t *testing.T, a started) {
			require.Equal(t, "lo", a.node(t).HostNetworks["loop"].Interface)
		},
		"templated.json": func(t *testing.T, a started) {
			require.Equal(t, "lo", a.node(t).HostNetworks["loop"].Interface)
		},
		"tls-server.hcl": func(t *testing.T, a started) {
			n := a.node(t)
			require.True(t, n.TLSEnabled)
			region, err := a.client.Agent().Region()
			require.NoError(t, err)
			require.Equal(t, "north", region)
		},
		"trial.hcl": func(t *testing.T, a started) {
			require.Equal(t, "attic-alone", a.node(t).Name)
			require.Equal(t, http.StatusOK, a.status(t, "/v1/agent/pprof/cmdline"))
		},
		"volumes.hcl": func(t *testing.T, a started) {
			volumes := a.node(t).HostVolumes
			require.Equal(t, filepath.Join(a.dir, "orders"), volumes["orders"].Path)
			require.True(t, volumes["certificates"].ReadOnly)
			v, _, err := a.client.HostVolumes().Create(&nomad.HostVolumeCreateRequest{Volume: &nomad.HostVolume{
				Name: "new", PluginID: "mkdir", RequestedCapabilities: []*nomad.HostVolumeCapability{{AttachmentMode: "file-system", AccessMode: "single-node-writer"}},
			}}, nil)
			require.NoError(t, err)
			require.DirExists(t, filepath.Join(a.dir, "made", v.Volume.ID))
		},
		"watched.hcl": func(t *testing.T, a started) { require.NotContains(t, a.metrics(t), `host="`) },
		"watched.json": func(t *testing.T, a started) {
			n := a.node(t)
			require.Equal(t, []string{"attic-3", "top", "2"}, []string{n.Name, n.Meta["floor"], n.Meta["racks"]})
			require.Contains(t, n.HostVolumes, "orders")
			metrics := a.metrics(t)
			require.Contains(t, metrics, "nomad_runtime_alloc_bytes")
			require.NotContains(t, metrics, "nomad_runtime_num_goroutines")
			require.NotContains(t, metrics, "nomad_client_host_")
		},
		// Those that join are tried with real servers.
		"demo-client.hcl":  nil,
		"joining.hcl":      nil,
		"tls-client.hcl":   nil,
		"trial-client.hcl": nil,
	}
	entries, err := os.ReadDir(nomadConfigurations)
	require.NoError(t, err)
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			dir, logged := prepared(t, e.Name()), &agentLog{}
			_, refused := agent.CheckConfiguration(filepath.Join(dir, e.Name()))
			if e.Name() == "image.hcl" { // a network is open there; what starts below listens elsewhere
				require.ErrorContains(t, refused, "everybody who reaches 0.0.0.0:4646 could run programs")
				refused = nil
			}
			check, known := done[e.Name()]
			require.Equal(t, refused == nil, known, "what is taken is looked at")
			if refused == nil && check == nil {
				return
			}
			cfg := config.Default()
			require.Equal(t, refused == nil, cfg.Load(filepath.Join(dir, e.Name())) == nil && cfg.Validate() == nil)
			o := bare(t, "")
			o.ConfigPaths, o.LogOutput = []string{filepath.Join(dir, e.Name())}, logged
			if refused != nil {
				require.EqualError(t, agent.Run(t.Context(), o), refused.Error())
				return
			}
			a := started{address: agenttest.Run(t, o), dir: dir, log: logged}
			c := &nomad.Config{Address: "http://" + a.address}
			if cfg.Access.TLS.HTTP {
				c = &nomad.Config{Address: "https://" + a.address, TLSConfig: &nomad.TLSConfig{
					CACert: filepath.Join(dir, "tls/ca.pem"), ClientCert: filepath.Join(dir, "tls/cert.pem"), ClientKey: filepath.Join(dir, "tls/key.pem"),
				}}
			}
			a.client = client(t, *c)
			check(t, a)
			for _, warning := range cfg.Warnings {
				require.Contains(t, strings.ReplaceAll(logged.String(), `\"`, `"`), warning)
			}
		})
	}
}

// prepared copies a configuration into a directory which has what it names below /srv/nomad.
func prepared(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range []string{"orders", "certificates", "tls"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	authority := certtest.NewAuthority(t)
	authority.Write(t, filepath.Join(dir, "tls"), "127.0.0.1")
	require.NoError(t, os.Rename(authority.File(t), filepath.Join(dir, "tls/ca.pem")))
	from := filepath.Join(nomadConfigurations, name)
	require.NoError(t, filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		rest, err := filepath.Rel(nomadConfigurations, path)
		require.NoError(t, err)
		if e.IsDir() {
			return os.Mkdir(filepath.Join(dir, rest), 0o700)
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		text := strings.NewReplacer("/srv/nomad", dir, `"/srv"`, `"`+dir+`"`).Replace(string(content))
		return os.WriteFile(filepath.Join(dir, rest), []byte(text), 0o600)
	}))
	return dir
}

// started is an agent with a configuration whose directories are in dir.
type started struct {
	address, dir string
	client       *nomad.Client
	log          *agentLog
}

func (a started) node(t *testing.T) *nomad.Node {
	t.Helper()
	nodes, _, err := a.client.Nodes().List(nil)
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	n, _, err := a.client.Nodes().Info(nodes[0].ID, nil)
	require.NoError(t, err)
	return n
}

func (a started) metrics(t *testing.T) string {
	t.Helper()
	body, err := a.client.Raw().Response("/v1/metrics?format=prometheus", nil)
	require.NoError(t, err)
	defer body.Close()
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	return string(text)
}

// text is what is at a path without a client.
func (a started) text(t *testing.T, path string) string {
	t.Helper()
	answer, err := http.Get("http://" + a.address + path)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

func (a started) status(t *testing.T, path string) int {
	t.Helper()
	answer, err := http.Get("http://" + a.address + path)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// agentLog is an agent's log, which is read while it is written.
type agentLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *agentLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *agentLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
