package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
)

// The calls are those that Terraform's provider for Nomad was seen to make for a nomad_job
// with detach = false: it is created, planned, found as it is, and destroyed.
func TestAJobIsAppliedAsTerraformDoes(t *testing.T) {
	w := newWorld(t, "mock")
	const source = `job "tf" {
  update {
    min_healthy_time = "1ms"
  }
  group "g" {
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
      resources {
        cpu    = 10
        memory = 20
      }
    }
  }
}`
	parse := func() *nomad.Job {
		job, err := w.Client.Jobs().ParseHCLOpts(&nomad.JobsParseRequest{JobHCL: source, Canonicalize: true})
		require.NoError(t, err)
		return job
	}
	at := &nomad.QueryOptions{Namespace: "default"}
	resp, _, err := w.Client.Jobs().RegisterOpts(parse(), &nomad.RegisterOptions{
		Submission: &nomad.JobSubmission{Source: source, Format: "hcl2"},
	}, &nomad.WriteOptions{Namespace: "default"})
	require.NoError(t, err)

	var eval *nomad.Evaluation
	require.Eventually(t, func() bool {
		eval, _, err = w.Client.Evaluations().Info(resp.EvalID, at)
		return err == nil && eval.Status == "complete"
	}, time.Minute, time.Millisecond)
	require.Empty(t, eval.NextEval)
	d := w.awaitDeployment(t, eval.DeploymentID, func(d *nomad.Deployment) bool { return d.Status != "running" })
	require.Equal(t, "successful", d.Status)

	job, _, err := w.Client.Jobs().Info("tf", at)
	require.NoError(t, err)
	require.Equal(t, resp.JobModifyIndex, *job.JobModifyIndex, "or Terraform would see a drift")
	submitted, _, err := w.Client.Jobs().Submission("tf", int(*job.Version), at)
	require.NoError(t, err)
	require.Equal(t, source, submitted.Source)
	allocs, _, err := w.Client.Jobs().Allocations("tf", false, at)
	require.NoError(t, err)
	require.Len(t, allocs, 1)
	plan, _, err := w.Client.Jobs().PlanOpts(parse(), &nomad.PlanOptions{Diff: true}, nil)
	require.NoError(t, err)
	require.Equal(t, "None", plan.Diff.Type, "a second plan is empty")

	_, _, err = w.Client.Jobs().Deregister("tf", true, &nomad.WriteOptions{Namespace: "default"})
	require.NoError(t, err)
	_, _, err = w.Client.Jobs().Info("tf", at)
	require.ErrorContains(t, err, "404", "by which Terraform knows that a job is gone")
}

func TestAPoolAndTheSchedulerAreSetAsTerraformDoes(t *testing.T) {
	w := newWorld(t)
	_, err := w.Client.NodePools().Register(&nomad.NodePool{Name: "p", Description: "d", Meta: map[string]string{"k": "v"}}, nil)
	require.NoError(t, err)
	pool, _, err := w.Client.NodePools().Info("p", nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "v"}, pool.Meta)
	_, err = w.Client.NodePools().Delete("p", nil)
	require.NoError(t, err)
	require.Equal(t, reply{status: http.StatusNotFound, body: "node pool not found"}, bare(w.get(t, "/v1/node/pool/p")))

	_, _, err = w.Client.Operator().SchedulerSetConfiguration(&nomad.SchedulerConfiguration{
		SchedulerAlgorithm: "spread", PreemptionConfig: nomad.PreemptionConfig{BatchSchedulerEnabled: true},
	}, nil)
	require.NoError(t, err)
	config, _, err := w.Client.Operator().SchedulerGetConfiguration(nil)
	require.NoError(t, err)
	require.Equal(t, nomad.SchedulerAlgorithm("spread"), config.SchedulerConfig.SchedulerAlgorithm)
	require.True(t, config.SchedulerConfig.PreemptionConfig.BatchSchedulerEnabled)
	region, err := w.Client.Agent().Region()
	require.NoError(t, err)
	require.Equal(t, "global", region)
}

func TestTokensPoliciesAndVariablesAreMadeAsTerraformDoes(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	client, err := nomad.NewClient(&nomad.Config{Address: g.URL})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	first, _, err := client.ACLTokens().Bootstrap(nil)
	require.NoError(t, err)
	client.SetSecretID(first.SecretID)
	_, _, err = client.ACLTokens().Self(&nomad.QueryOptions{})
	require.NoError(t, err, "by which the provider tries its token")

	wanted := nomad.ACLToken{Name: "ci", Type: "client", Policies: []string{"readonly"}, ExpirationTTL: time.Hour}
	made, _, err := client.ACLTokens().Create(&wanted, nil)
	require.NoError(t, err)
	read, _, err := client.ACLTokens().Info(made.AccessorID, nil)
	require.NoError(t, err)
	require.Equal(t, time.Hour, read.ExpirationTTL, "or Terraform would see a drift")
	require.Equal(t, wanted.Policies, read.Policies)
	wanted.AccessorID, wanted.Name = made.AccessorID, "cd"
	_, _, err = client.ACLTokens().Update(&wanted, nil)
	require.NoError(t, err)
	wanted.Global = true
	_, _, err = client.ACLTokens().Update(&wanted, nil)
	require.ErrorContains(t, err, "cannot toggle global mode")
	_, err = client.ACLTokens().Delete(made.AccessorID, nil)
	require.NoError(t, err)
	_, _, err = client.ACLTokens().Info(made.AccessorID, nil)
	require.ErrorContains(t, err, "404", "by which Terraform knows that a token is gone")

	policy := &nomad.ACLPolicy{Name: "dev", Description: "d", Rules: `namespace "default" { policy = "write" }`}
	_, err = client.ACLPolicies().Upsert(policy, nil)
	require.NoError(t, err)
	kept, _, err := client.ACLPolicies().Info("dev", nil)
	require.NoError(t, err)
	require.Equal(t, policy.Rules, kept.Rules, "or Terraform would see a drift")
	_, err = client.ACLPolicies().Delete("dev", nil)
	require.NoError(t, err)
	_, _, err = client.ACLPolicies().Info("dev", nil)
	require.ErrorContains(t, err, "404", "by which Terraform knows that a policy is gone")

	at := &nomad.QueryOptions{Namespace: "default"}
	v := &nomad.Variable{Namespace: "default", Path: "app/db", Items: map[string]string{"user": "root"}}
	for range 2 { // it is changed as it is made
		_, _, err = client.Variables().Create(v, nil)
		require.NoError(t, err)
	}
	got, _, err := client.Variables().Read("app/db", at)
	require.NoError(t, err)
	require.Equal(t, "root", got.Items["user"])
	_, err = client.Variables().Delete("app/db", &nomad.WriteOptions{Namespace: "default"})
	require.NoError(t, err)
	_, _, err = client.Variables().Read("app/db", at)
	require.ErrorIs(t, err, nomad.ErrVariablePathNotFound, "by which Terraform knows that a variable is gone")
}

func TestANamespaceIsAppliedAsTerraformDoes(t *testing.T) {
	w := newWorld(t)
	namespaces := w.Client.Namespaces()
	for _, description := range []string{"d", "another"} { // it is changed as it is made
		_, err := namespaces.Register(&nomad.Namespace{Name: "team", Description: description, Meta: map[string]string{"k": "v"}}, nil)
		require.NoError(t, err)
		read, _, err := namespaces.Info("team", nil)
		require.NoError(t, err)
		require.Equal(t, description, read.Description, "or Terraform would see a drift")
		require.Equal(t, map[string]string{"k": "v"}, read.Meta)
		require.Empty(t, read.Quota)
	}
	_, err := namespaces.Delete("team", nil)
	require.NoError(t, err)
	_, _, err = namespaces.Info("team", nil)
	require.ErrorContains(t, err, "404", "by which Terraform knows that a namespace is gone")
}

func TestARoleIsAppliedAsTerraformDoes(t *testing.T) {
	d := divide(t)
	roles := d.client.ACLRoles()
	made, _, err := roles.Create(&nomad.ACLRole{Name: "ci", Description: "d", Policies: []*nomad.ACLRolePolicyLink{{Name: "team"}}}, nil)
	require.NoError(t, err)
	read, _, err := roles.Get(made.ID, nil)
	require.NoError(t, err)
	require.Equal(t, made, read, "or Terraform would see a drift")
	_, _, err = roles.Update(&nomad.ACLRole{ID: made.ID, Name: "cd", Policies: []*nomad.ACLRolePolicyLink{{Name: "readonly"}}}, nil)
	require.NoError(t, err)
	read, _, err = roles.Get(made.ID, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"cd", ""}, []string{read.Name, read.Description})
	require.Equal(t, []*nomad.ACLRolePolicyLink{{Name: "readonly"}}, read.Policies)
	_, err = roles.Delete(made.ID, nil)
	require.NoError(t, err)
	_, _, err = roles.Get(made.ID, nil)
	require.ErrorContains(t, err, "404", "by which Terraform knows that a role is gone")
}

// A volume is made, asked for until it is ready, and found as it was wanted.
func TestADynamicHostVolumeIsAppliedAsTerraformDoes(t *testing.T) {
	w := newWorld(t, "mock")
	volumes, at := w.Client.HostVolumes(), &nomad.QueryOptions{Namespace: "default"}
	wanted := &nomad.HostVolume{
		Namespace: "default", Name: "tf", PluginID: "mkdir", NodePool: "default", Parameters: map[string]string{"mode": "0700"},
		RequestedCapabilities: []*nomad.HostVolumeCapability{{AttachmentMode: "file-system", AccessMode: "single-node-writer"}},
		Constraints:           []*nomad.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}},
	}
	answer, _, err := volumes.Create(&nomad.HostVolumeCreateRequest{Volume: wanted}, &nomad.WriteOptions{Namespace: "default"})
	require.NoError(t, err)
	var read *nomad.HostVolume
	require.Eventually(t, func() bool {
		read, _, err = volumes.Get(answer.Volume.ID, at)
		return err == nil && read.State == nomad.HostVolumeStateReady
	}, time.Minute, time.Millisecond)
	require.Equal(t, wanted.Parameters, read.Parameters, "or Terraform would see a drift")
	require.Equal(t, wanted.RequestedCapabilities, read.RequestedCapabilities)
	require.Equal(t, wanted.Constraints, read.Constraints)
	require.DirExists(t, read.HostPath)
	again := *read
	changed, _, err := volumes.Create(&nomad.HostVolumeCreateRequest{Volume: &again}, nil)
	require.NoError(t, err)
	require.Equal(t, read.ID, changed.Volume.ID, "a change is one of the same volume")
	_, _, err = volumes.Delete(&nomad.HostVolumeDeleteRequest{ID: read.ID}, &nomad.WriteOptions{Namespace: "default"})
	require.NoError(t, err)
	_, _, err = volumes.Get(read.ID, at)
	require.ErrorContains(t, err, "404", "by which Terraform knows that a volume is gone")
}
