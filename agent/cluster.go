package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/controlplane/cluster"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/structs"
)

// The files of a node that has joined a cluster, in the data directory.
const (
	memberFile = "cluster.region"  // the cluster's region
	tokenFile  = "node_token.jwt"  // by which servers know the node
	introFile  = "intro_token.jwt" // by which they let it in, written by the operator

	heardFile   = "cluster.heard"   // whose time of change is when servers were heard last
	volumesFile = "cluster.volumes" // the dynamic host volumes that servers have it make
)

// join begins to connect to the servers of a cluster, if there are any to join. A data
// directory is of one control plane as long as it has allocations: another would stop or
// forget them.
func (a *agent) join() error {
	member := filepath.Join(a.cfg.DataDir, memberFile)
	joins := len(a.cfg.Client.Servers) > 0
	if err := a.ofMachine(machineID(machineIDFiles), joins); err != nil {
		return err
	}
	region, err := cluster.Note(member)
	if err != nil {
		return err
	}
	if !joins && region == "" {
		return nil
	}
	stored, _, err := a.state.Allocations()
	if err != nil {
		return fmt.Errorf("stored allocations: %w", err)
	}
	switch {
	case !joins && a.notOwn(stored) > 0:
		return fmt.Errorf("data_dir: %s has allocations (%d) of a cluster's region %q: name its servers in client.servers; or stop their jobs there and have the servers forget them (nomad system gc), or choose another with -data-dir", a.cfg.DataDir, a.notOwn(stored), region)
	case joins && region == "" && a.schedules() > 0:
		if a.cfg.Client.StandaloneJobs != config.StopStandaloneJobs {
			return fmt.Errorf("data_dir: %s has allocations (%d) that this agent has scheduled itself and that have not ended: stop their jobs before it joins servers, have it stop them with client { standalone_jobs = %q }, or choose another with -data-dir", a.cfg.DataDir, a.schedules(), config.StopStandaloneJobs)
		}
		if err := a.stopJobs(); err != nil {
			return err
		}
	case joins && region != "" && region != a.cfg.Region && len(stored) > 0:
		return fmt.Errorf("data_dir: %s has allocations (%d) of region %q, and region is %q: choose another with -data-dir", a.cfg.DataDir, len(stored), region, a.cfg.Region)
	case !joins:
		return errors.Join(os.Remove(member), removeIfThere(filepath.Join(a.cfg.DataDir, tokenFile)))
	}
	if err := cluster.SetNote(member, a.cfg.Region); err != nil {
		return err
	}
	return a.connect()
}

// stopJobs stops all jobs of the agent's own control plane: their tasks end once servers have said
// what the node is to run, and they are not started again when it has left them.
func (a *agent) stopJobs() error {
	for _, j := range a.plane.Jobs() {
		if *j.Stop {
			continue
		}
		if _, err := a.plane.DeregisterJob(&structs.JobStop{Namespace: *j.Namespace, JobID: *j.ID}); err != nil {
			return fmt.Errorf("stopping job %q before servers are joined: %w", *j.ID, err)
		}
		a.logger.Warn("a job that the agent has scheduled itself is stopped, since it joins servers (client.standalone_jobs)", "namespace", *j.Namespace, "job_id", *j.ID)
	}
	return nil
}

// notOwn is how many allocations the agent's own control plane does not know. Those that it stopped are
// its own for as long as no server was heard.
func (a *agent) notOwn(stored []*structs.Allocation) (n int) {
	for _, one := range stored {
		if a.plane.Allocation(one.ID) == nil {
			n++
		}
	}
	return n
}

// schedules is how many allocations the agent's own control plane has that have not ended.
func (a *agent) schedules() (n int) {
	for _, one := range a.plane.Allocations() {
		if !one.ClientStatus.Terminal() {
			n++
		}
	}
	return n
}

// connect makes the servers the control plane.
func (a *agent) connect() error {
	secured := func() (*tls.Config, error) { return serverTLS(a.cfg.Access.TLS, a.cfg.Region) }
	_, err := secured()
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	a.cluster, err = cluster.Open(cluster.Config{
		Servers: a.cfg.Client.Servers,
		Region:  a.cfg.Region,
		TLS:     secured,
		NodeTLS: func() (*tls.Config, error) { return nodeTLS(a.cfg.Access.TLS, a.cfg.Region) },
		Secret: func() (string, error) {
			id, err := a.state.Node()
			if err != nil || id == nil {
				return "", errors.Join(err, errors.New("the node has no identity"))
			}
			return id.SecretID, nil
		},
		TokenFile:        filepath.Join(a.cfg.DataDir, tokenFile),
		VolumeFile:       filepath.Join(a.cfg.DataDir, volumesFile),
		IntroductionFile: filepath.Join(a.cfg.DataDir, introFile),
		Handler:          a.asked.handler(),
		Logger:           a.logger.Named("cluster"),
	})
	if err != nil {
		return err
	}
	a.closing("connection to the servers", a.cluster.Close)
	return nil
}

// controlPlane is who says what the node runs.
func (a *agent) controlPlane() node.ControlPlane {
	if a.cluster != nil {
		return counted{a.cluster, a.cluster.Allocation, a.outcomes, a.eventLog}
	}
	return counted{a.plane.ForNode(), a.plane.Allocation, a.outcomes, a.eventLog}
}

// serverConditions are what the operator has to know of the servers, if there are some: that none answers,
// or that they do not take the node, with the reason.
func (a *agent) serverConditions() []structs.Condition {
	if a.cluster == nil {
		return nil
	}
	t := a.cluster.Trouble()
	if t == nil {
		return nil
	}
	return []structs.Condition{{Name: "servers", Text: t.Text + ": what runs goes on", Remedy: t.Remedy, Since: t.Since}}
}

// heardFile is where it is kept when servers were heard last; empty: there are none.
func (a *agent) heardFile() string {
	if a.cluster == nil {
		return ""
	}
	return filepath.Join(a.cfg.DataDir, heardFile)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// serverTLS is how connections to servers are encrypted; nil: they are not.
func serverTLS(t config.TLS, region string) (*tls.Config, error) {
	if !t.RPC {
		return nil, nil
	}
	c, err := clusterTLS(t, "server."+region+".nomad")
	if err != nil || t.VerifyServerHostname {
		return c, err
	}
	// The chain is verified all the same, below: only the name is not.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.RootCAs, Intermediates: between})
		return err
	}
	return c, nil
}

// nodeTLS is how connections to other nodes are encrypted that have it.
func nodeTLS(t config.TLS, region string) (*tls.Config, error) {
	return clusterTLS(t, "client."+region+".nomad")
}

// clusterTLS is that of connections to who has the certificate for a name, from the cluster's authority.
func clusterTLS(t config.TLS, name string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	var err error
	if c.RootCAs, err = authorities(t.CAFile); err != nil {
		return nil, err
	}
	c.Certificates, err = ownCertificates(t.CertFile, t.KeyFile)
	return c, err
}

// knownPlane is the control plane of a node of a cluster as the HTTP API needs it, where that
// answers itself: of its own allocations.
type knownPlane struct {
	planeAPI
	cluster *cluster.ControlPlane
}

// Allocation implements httpapi.ControlPlane.
func (p knownPlane) Allocation(id string) *structs.Allocation { return p.cluster.Allocation(id) }

// planeAPI is the control plane as the HTTP API needs it, and the servers that it leaves the rest
// to, if there are some.
func (a *agent) planeAPI() (httpapi.ControlPlane, httpapi.Servers) {
	own := planeAPI{a.plane, &a.conditions}
	if a.cluster == nil {
		return own, nil
	}
	return knownPlane{own, a.cluster}, a.cluster
}

// allocations are those that the node has.
func (a *agent) allocations() []*structs.Allocation {
	if a.cluster != nil {
		return a.cluster.KnownAllocations()
	}
	return a.plane.Allocations()
}
